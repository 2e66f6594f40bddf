//! `systole devices`.

use std::fmt::Write;

use systole::hal::sim::Profile;
use systole::{Config, Isa};

use crate::output::{self, Failure, HEADING};
use crate::table::bytes;

/// Lists what [`Config`] can name on this machine.
pub(crate) fn list() -> Result<(), Failure> {
    output::print(&render())
}

fn render() -> String {
    let mut text = format!("{HEADING}{:<10}{:>10}  about{HEADING:#}\n", "profile", "memory");
    for profile in Profile::ALL {
        let memory = bytes(profile.memory_limit() as f64);
        writeln!(text, "{:<10}{memory:>10}  simulator: {}", profile.name(), profile.about())
            .expect("writing to a string cannot fail");
    }
    let sets: Vec<_> = Isa::available().into_iter().map(Isa::name).collect();
    let default = Config::default();
    text + &format!(
        "\ninstruction sets  {} (default: {})\nthreads           {} by default\n",
        sets.join(", "),
        Isa::best(),
        default.threads
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed() {
        let text = render();
        for name in Profile::ALL.map(Profile::name).into_iter().chain(Isa::available().into_iter().map(Isa::name)) {
            assert!(text.contains(name), "{text}");
        }
    }
}
