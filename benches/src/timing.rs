//! The modes against each other: in turns, so that other work on the machine hits them alike.
//!
//! A turn of a mode is as many steps as take some milliseconds, and ends with a wait for the device; its time divided by
//! its steps is the time of a step. One number for a mode is the median over turns; how two modes compare is the median
//! over turns of the ratio of their times.

use std::time::{Duration, Instant};

use systole::{Config, DType, Device, Mode, Result, Tensor};

use crate::workloads::{Size, Step, Workload};

/// The time that a turn is to take, where more than one step is needed for it.
const TURN: Duration = Duration::from_millis(20);
/// Most steps of a turn.
const MOST_STEPS: usize = 10_000;

/// What is run of a workload.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Dtype of its tensors.
    pub dtype: DType,
    /// Size of its tensors.
    pub size: Size,
    /// Turns of each mode that count; one more comes before them. At least 1.
    pub turns: usize,
    /// The device, whatever the mode.
    pub config: Config,
}

/// Times of one mode: seconds of a step, in each turn.
#[derive(Clone, Debug)]
pub struct Times(pub Vec<f64>);

impl Times {
    /// The median.
    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }
}

/// What a workload took in each mode.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Times by mode, in the order of [`Mode::ALL`].
    pub modes: Vec<(Mode, Times)>,
    /// Of the bits of the first step's results, in each mode.
    pub checksums: Vec<(Mode, u64)>,
}

impl Comparison {
    /// Median seconds of a step in `mode`.
    pub fn seconds(&self, mode: Mode) -> f64 {
        self.times(mode).median()
    }

    /// How many times as fast as strict mode the fused one is.
    pub fn speed_up(&self) -> f64 {
        let (strict, fused) = (self.times(Mode::Strict), self.times(Mode::Fused));
        median(strict.0.iter().zip(&fused.0).map(|(strict, fused)| strict / fused).collect())
    }

    /// The checksum of every mode, where they agree.
    pub fn checksum(&self) -> Option<u64> {
        let (_, first) = self.checksums[0];
        self.checksums.iter().all(|(_, checksum)| *checksum == first).then_some(first)
    }

    fn times(&self, mode: Mode) -> &Times {
        let found = self.modes.iter().find(|(other, _)| *other == mode);
        &found.expect("every mode ran").1
    }
}

/// Runs a workload in every mode. `advance` is told after each turn of a mode.
///
/// # Errors
/// The device failed, or is out of memory.
///
/// # Panics
/// `plan.turns` is 0.
pub fn compare(workload: &Workload, plan: &Plan, mut advance: impl FnMut()) -> Result<Comparison> {
    assert!(plan.turns > 0, "a median is of one turn or more");
    let mut runs = Mode::ALL.map(|mode| Run::start(workload, plan, mode)).into_iter().collect::<Result<Vec<_>>>()?;
    for turn in 0..=plan.turns {
        for run in &mut runs {
            let seconds = run.turn()?;
            if turn > 0 {
                run.times.push(seconds);
            }
            advance();
        }
    }
    let checksums = runs.iter().map(|run| (run.mode, run.checksum)).collect();
    let modes = runs.into_iter().map(|run| (run.mode, Times(run.times))).collect();
    Ok(Comparison { modes, checksums })
}

/// A workload at work in one mode.
struct Run {
    mode: Mode,
    device: Device,
    step: Step,
    steps: usize,
    checksum: u64,
    times: Vec<f64>,
}

impl Run {
    /// Runs a first step for its bits, and a second for its time.
    fn start(workload: &Workload, plan: &Plan, mode: Mode) -> Result<Run> {
        let device = Device::open(Config { mode, ..plan.config.clone() })?;
        let mut step = workload.start(&device, plan.dtype, plan.size)?;
        let checksum = checksum(&step()?)?;
        let mut run = Run { mode, device, step, steps: 1, checksum, times: Vec::new() };
        let seconds = run.turn()?;
        run.steps = ((TURN.as_secs_f64() / seconds).ceil() as usize).clamp(1, MOST_STEPS);
        Ok(run)
    }

    /// Seconds of a step.
    fn turn(&mut self) -> Result<f64> {
        let started = Instant::now();
        let mut results = Vec::new();
        for _ in 0..self.steps {
            // What is dropped before the cut is never computed.
            results = (self.step)()?;
            self.device.flush();
        }
        self.device.synchronize()?;
        let seconds = started.elapsed().as_secs_f64() / self.steps as f64;
        assert!(results.iter().all(Tensor::is_ready), "a step is timed with all of its results");
        Ok(seconds)
    }
}

/// Of the dtypes, shapes and bits of tensors: FNV-1a over words of eight bytes.
fn checksum(tensors: &[Tensor]) -> Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut take = |word: u64| hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    for tensor in tensors {
        tensor.ty().to_string().bytes().for_each(|byte| take(byte.into()));
        for word in tensor.to_bytes()?.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            take(u64::from_le_bytes(bytes));
        }
    }
    Ok(hash)
}

/// The middle value, or the mean of the two middle ones; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// The geometric mean of positive numbers; 1 of none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::{DTYPES, FUSION};

    fn plan(dtype: DType, config: Config) -> Plan {
        Plan { dtype, size: Size::Small, turns: 1, config }
    }

    #[test]
    fn every_workload_gives_the_same_bits_in_every_mode() {
        for workload in &FUSION {
            let sums = DTYPES.map(|dtype| {
                let one = Config { threads: 1, ..Config::default() };
                let two = Config { threads: 2, isa: Some(systole::Isa::PORTABLE), ..Config::default() };
                let [one, two] = [one, two].map(|config| {
                    let comparison = compare(workload, &plan(dtype, config), || ()).unwrap();
                    assert!(comparison.modes.iter().all(|(_, times)| times.0.len() == 1), "{}", workload.name);
                    comparison.checksum().unwrap_or_else(|| panic!("{}: {:?}", workload.name, comparison.checksums))
                });
                assert_eq!(one, two, "{} of {dtype}", workload.name);
                one
            });
            assert_ne!(sums[0], sums[1], "{} does not look at its dtype", workload.name);
        }
    }

    #[test]
    fn modes_are_compared_turn_by_turn() {
        let times = |times: [f64; 3]| Times(times.to_vec());
        // The second turn met a machine ten times as slow.
        let modes = vec![
            (Mode::Debug, times([9.0, 90.0, 9.0])),
            (Mode::Strict, times([2.0, 30.0, 3.0])),
            (Mode::Fused, times([1.0, 10.0, 1.0])),
        ];
        let sums = |sums: [u64; 3]| Mode::ALL.into_iter().zip(sums).collect();
        let comparison = Comparison { modes, checksums: sums([7, 7, 7]) };
        assert_eq!((comparison.seconds(Mode::Strict), comparison.speed_up()), (3.0, 3.0));
        assert_eq!(comparison.checksum(), Some(7));
        assert_eq!(Comparison { checksums: sums([7, 7, 8]), ..comparison }.checksum(), None);
    }

    #[test]
    fn a_checksum_is_of_every_bit() {
        let device = Device::simulator().unwrap();
        let sum =
            |elements: &[f32]| checksum(&[Tensor::from_slice(&device, elements, [elements.len()]).unwrap()]).unwrap();
        assert_eq!(sum(&[1.0, 2.0, 3.0]), sum(&[1.0, 2.0, 3.0]));
        assert_ne!(sum(&[1.0, 2.0, 3.0]), sum(&[1.0, 2.0, -3.0]));
        assert_ne!(sum(&[0.0]), sum(&[-0.0]));
        assert_ne!(sum(&[0.0]), sum(&[0.0, 0.0]));
    }

    #[test]
    fn means() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![4.0, 1.0, 2.0]), 2.0);
        assert_eq!(geometric_mean(&[2.0, 8.0]).round(), 4.0);
        assert_eq!(geometric_mean(&[]), 1.0);
    }
}
