//! One run of a model in one mode, and what it took.
//!
//! A device works asynchronously, so the time of a single step cannot be seen from outside. The run is cut into ten
//! groups of steps, or one per step if there are fewer; each ends with a wait for the device, and the median over
//! groups of time divided by steps is the time of a step. The first group, in which plans are built, counts only if
//! there is no other. Nothing is read back before the last group has ended. Counts, in contrast, are of all steps.

use std::time::{Duration, Instant};

use systole::{Config, Device, Mode, Result, Stats, Tensor};
use systole_models::{Gives, Prepared};

use crate::outcome::Outcome;

/// Groups of steps that a run is cut into.
const GROUPS: usize = 10;

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    /// Steps run.
    pub(crate) steps: usize,
    /// Median wall time.
    pub(crate) seconds_per_step: f64,
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

/// Runs a model on a fresh device. `advance` is told of steps done, outside the measured time.
pub(crate) fn measure(
    model: &dyn Prepared,
    gives: Gives,
    config: Config,
    steps: usize,
    mut advance: impl FnMut(Mode, usize),
) -> Result<(Outcome, Measurement)> {
    let mode = config.mode;
    let device = Device::open(config)?;
    let mut workload = model.start(&device)?;
    device.synchronize()?;
    advance(mode, 0);

    let before = device.stats();
    let mut kernel_time = before.kernel_time;
    let mut results = Vec::with_capacity(steps);
    let mut groups = Vec::with_capacity(GROUPS);
    for steps in group_sizes(steps) {
        let start = Instant::now();
        for _ in 0..steps {
            results.push(workload.step()?);
        }
        device.synchronize()?;
        let wall = start.elapsed();
        let total = device.stats().kernel_time;
        groups.push(Group { steps, wall, kernels: total - kernel_time });
        kernel_time = total;
        advance(mode, steps);
    }
    let measurement = summarize(&groups, &before, &device.stats());

    let read = |results: &Vec<Tensor>| results.iter().map(Tensor::to_vec).collect::<Result<_>>();
    let steps = results.iter().map(read).collect::<Result<_>>()?;
    let parameters = workload
        .parameters()
        .into_iter()
        .map(|(name, parameter)| Ok((name, parameter.to_vec()?)))
        .collect::<Result<_>>()?;
    Ok((Outcome { gives, steps, parameters }, measurement))
}

/// Sizes that differ by at most one and add up to `steps`, none of them zero.
fn group_sizes(steps: usize) -> impl Iterator<Item = usize> {
    let groups = GROUPS.min(steps);
    (0..groups).map(move |group| steps * (group + 1) / groups - steps * group / groups)
}

fn summarize(groups: &[Group], before: &Stats, after: &Stats) -> Measurement {
    let steps: usize = groups.iter().map(|group| group.steps).sum();
    let timed = if groups.len() > 1 { &groups[1..] } else { groups };
    let median_of = |time: fn(&Group) -> Duration| {
        median(timed.iter().map(|group| time(group).as_secs_f64() / group.steps as f64).collect())
    };
    let per_step = |count: fn(&Stats) -> u64| (count(after) - count(before)) as f64 / steps as f64;
    let hits = after.plans.hits - before.plans.hits;
    let lookups = hits + after.plans.misses - before.plans.misses;
    Measurement {
        steps,
        seconds_per_step: median_of(|group| group.wall),
        kernel_seconds_per_step: median_of(|group| group.kernels),
        ops_per_step: per_step(|stats| stats.ops),
        launches_per_step: per_step(|stats| stats.launches),
        bytes_moved_per_step: per_step(|stats| stats.bytes_moved),
        plans_built: after.plans.builds - before.plans.builds,
        plan_hit_rate: if lookups == 0 { 0.0 } else { hits as f64 / lookups as f64 },
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
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
        let time = |groups: &[Group]| summarize(groups, &stats, &stats).seconds_per_step * 1e6;
        assert_eq!(time(&[group(100)]).round(), 50.0);
        assert_eq!(time(&[group(100), group(10), group(20), group(90)]).round(), 10.0);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
