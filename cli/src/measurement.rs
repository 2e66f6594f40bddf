//! Runs of a model, each in one mode, side by side, and what they took.
//!
//! A device works asynchronously, so the time of a single step cannot be seen from outside. A run is cut into ten
//! groups of steps, or one per step if there are fewer; each ends with a wait for the device, and the median over
//! groups of time divided by steps is the time of a step. The first group, in which plans are built, counts only if
//! there is no other. Nothing is read back before the last group has ended. Counts, in contrast, are of all steps.
//!
//! Runs take turns, a group each, so that what else the machine does in the meantime hits all of them alike. How two
//! compare is the median over turns of the ratio of their times.

use std::time::{Duration, Instant};

use systole::{Config, Device, Mode, Result, Stats, Tensor};
use systole_benches::median;
use systole_models::{Gives, Prepared, Workload};

use crate::outcome::Outcome;

/// Groups of steps that a run is cut into.
const GROUPS: usize = 10;

/// What one run took.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// Steps run.
    pub(crate) steps: usize,
    /// Wall time of a step in each group that counts.
    pub(crate) seconds: Vec<f64>,
    /// Median time inside kernels; zero unless the device was opened with kernel timing.
    pub(crate) kernel_seconds_per_step: f64,
    /// Mean number of ops recorded.
    pub(crate) ops_per_step: f64,
    /// Mean number of programs submitted.
    pub(crate) launches_per_step: f64,
    /// Mean of the bytes that launches read and wrote.
    pub(crate) bytes_moved_per_step: f64,
    /// Plans built in all steps.
    pub(crate) plans_built: u64,
    /// Plans found, of all that were looked up.
    pub(crate) plan_hit_rate: f64,
}

/// Time of one group of steps.
#[derive(Clone, Copy, Debug)]
struct Group {
    steps: usize,
    wall: Duration,
    kernels: Duration,
}

/// Runs a model on a fresh device for each of `configs`. `advance` is told of steps done, outside the measured time.
pub(crate) fn measure(
    model: &dyn Prepared,
    gives: Gives,
    configs: impl IntoIterator<Item = Config>,
    steps: usize,
    mut advance: impl FnMut(Mode, usize),
) -> Result<Vec<(Outcome, Measurement)>> {
    let mut runs = Vec::new();
    for config in configs {
        let mode = config.mode;
        runs.push(Run::start(model, gives, config)?);
        advance(mode, 0);
    }
    for steps in group_sizes(steps) {
        for run in &mut runs {
            run.advance(steps)?;
            advance(run.mode, steps);
        }
    }
    runs.into_iter().map(Run::finish).collect()
}

/// A run that goes on.
struct Run {
    mode: Mode,
    gives: Gives,
    device: Device,
    workload: Box<dyn Workload>,
    /// Before the first step.
    before: Stats,
    /// Until now.
    kernel_time: Duration,
    results: Vec<Vec<Tensor>>,
    groups: Vec<Group>,
}

impl Run {
    fn start(model: &dyn Prepared, gives: Gives, config: Config) -> Result<Self> {
        let mode = config.mode;
        let device = Device::open(config)?;
        let workload = model.start(&device)?;
        device.synchronize()?;
        let before = device.stats();
        let kernel_time = before.kernel_time;
        Ok(Run { mode, gives, device, workload, before, kernel_time, results: Vec::new(), groups: Vec::new() })
    }

    /// Runs a group.
    fn advance(&mut self, steps: usize) -> Result<()> {
        let start = Instant::now();
        for _ in 0..steps {
            self.results.push(self.workload.step()?);
        }
        self.device.synchronize()?;
        let wall = start.elapsed();
        let total = self.device.stats().kernel_time;
        self.groups.push(Group { steps, wall, kernels: total - self.kernel_time });
        self.kernel_time = total;
        Ok(())
    }

    /// Reads back what came of it.
    fn finish(self) -> Result<(Outcome, Measurement)> {
        let measurement = summarize(&self.groups, &self.before, &self.device.stats());
        let read = |results: &Vec<Tensor>| results.iter().map(Tensor::to_vec).collect::<Result<_>>();
        let steps = self.results.iter().map(read).collect::<Result<_>>()?;
        let parameters = self
            .workload
            .parameters()
            .into_iter()
            .map(|(name, parameter)| Ok((name, parameter.to_vec()?)))
            .collect::<Result<_>>()?;
        Ok((Outcome { gives: self.gives, steps, parameters }, measurement))
    }
}

impl Measurement {
    /// Median wall time of a step.
    pub(crate) fn seconds_per_step(&self) -> f64 {
        median(self.seconds.clone())
    }
}

/// How many times as fast as strict mode the fused one is, where both ran.
pub(crate) fn speed_up(measurements: &[(Mode, Measurement)]) -> Option<f64> {
    let seconds = |wanted| {
        let found = measurements.iter().find(|(mode, _)| *mode == wanted);
        found.map(|(_, measurement)| &measurement.seconds)
    };
    let (strict, fused) = (seconds(Mode::Strict)?, seconds(Mode::Fused)?);
    let ratios: Vec<_> = strict.iter().zip(fused).filter(|(_, fused)| **fused > 0.0).map(|(s, f)| s / f).collect();
    (!ratios.is_empty()).then(|| median(ratios))
}

/// Sizes that differ by at most one and add up to `steps`, none of them zero.
fn group_sizes(steps: usize) -> impl Iterator<Item = usize> {
    let groups = GROUPS.min(steps);
    (0..groups).map(move |group| steps * (group + 1) / groups - steps * group / groups)
}

fn summarize(groups: &[Group], before: &Stats, after: &Stats) -> Measurement {
    let steps: usize = groups.iter().map(|group| group.steps).sum();
    let timed = if groups.len() > 1 { &groups[1..] } else { groups };
    let seconds = |time: fn(&Group) -> Duration| -> Vec<f64> {
        timed.iter().map(|group| time(group).as_secs_f64() / group.steps as f64).collect()
    };
    let per_step = |count: fn(&Stats) -> u64| (count(after) - count(before)) as f64 / steps as f64;
    let hits = after.plans.hits - before.plans.hits;
    let lookups = hits + after.plans.misses - before.plans.misses;
    Measurement {
        steps,
        seconds: seconds(|group| group.wall),
        kernel_seconds_per_step: median(seconds(|group| group.kernels)),
        ops_per_step: per_step(|stats| stats.ops),
        launches_per_step: per_step(|stats| stats.launches),
        bytes_moved_per_step: per_step(|stats| stats.bytes_moved),
        plans_built: after.plans.builds - before.plans.builds,
        plan_hit_rate: if lookups == 0 { 0.0 } else { hits as f64 / lookups as f64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_every_step_evenly() {
        for steps in [1, 2, 5, 9, 10, 11, 19, 25, 200, 1_000_000] {
            let sizes: Vec<_> = group_sizes(steps).collect();
            assert_eq!(sizes.iter().sum::<usize>(), steps);
            assert_eq!(sizes.len(), steps.min(GROUPS));
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(*least > 0 && most - least <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn the_first_group_counts_only_alone() {
        let group = |micros| Group { steps: 2, wall: Duration::from_micros(micros), kernels: Duration::ZERO };
        let stats = Stats::default();
        let time = |groups: &[Group]| summarize(groups, &stats, &stats).seconds_per_step() * 1e6;
        assert_eq!(time(&[group(100)]).round(), 50.0);
        assert_eq!(time(&[group(100), group(10), group(20), group(90)]).round(), 10.0);
    }

    #[test]
    fn modes_are_compared_turn_by_turn() {
        let group = |micros| Group { steps: 1, wall: Duration::from_micros(micros), kernels: Duration::ZERO };
        let stats = Stats::default();
        let run = |micros: [u64; 4]| summarize(&micros.map(group), &stats, &stats);
        // The second turn met a machine ten times as slow; the first one does not count.
        let strict = (Mode::Strict, run([7, 20, 300, 30]));
        let fused = (Mode::Fused, run([9, 10, 100, 10]));
        assert_eq!(speed_up(&[strict.clone(), fused]).map(f64::round), Some(3.0));
        assert_eq!(speed_up(&[strict]), None);
    }
}
