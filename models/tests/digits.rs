//! The digits against expected results made outside the project, and against themselves in every setting.
//!
//! The expected results are not part of the repository; tests that lack them say so and pass.

mod oracle;
#[path = "../../tests/testdata/mod.rs"]
mod testdata;

use oracle::Oracle;
use systole::hal::sim::{Compiler, Faults, Gate};
use systole::{Config, Device, Isa, Mode, Precision, Tensor, with_precision};
use systole_models::Workload;
use systole_models::digits::{Digits, NAMES, STEPS, Training, initial_parameters};

const ORACLE: &str = "train_digits_oracle.npz";

/// The arrays of that name, one for each parameter, as JAX computed them.
fn arrays(oracle: &Oracle, name: &str) -> [Vec<f32>; 4] {
    [0, 1, 2, 3].map(|at| oracle.array(&format!("{name}_{at}")))
}

/// Every bit that a training leaves behind.
#[derive(Clone, PartialEq, Debug)]
struct Outcome {
    losses: Vec<u32>,
    parameters: Vec<Vec<u32>>,
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn train(device: &Device, steps: usize) -> Outcome {
    let mut training = Training::new(device).unwrap();
    let losses: Vec<_> = (0..steps).flat_map(|_| training.step().unwrap()).collect();
    Outcome {
        losses: losses.iter().flat_map(bits).collect(),
        parameters: training.parameters().iter().map(|(_, parameter)| bits(parameter)).collect(),
    }
}

fn open(mode: Mode, threads: usize, isa: Isa) -> Device {
    Device::open(Config { mode, threads, isa: Some(isa), ..Config::default() }).unwrap()
}

#[track_caller]
fn assert_close(what: &str, actual: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (i, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        assert!((actual - expected).abs() <= tolerance, "{what}[{i}] is {actual}, expected {expected} ± {tolerance}");
    }
}

fn floats(bits: &[u32]) -> Vec<f32> {
    bits.iter().copied().map(f32::from_bits).collect()
}

#[test]
fn training_follows_the_oracle() {
    let Some(oracle) = Oracle::find(ORACLE) else { return };
    let outcome = train(&open(Mode::Fused, 1, Isa::best()), STEPS);
    assert_close("loss", &floats(&outcome.losses), &oracle.array::<f32>("loss"), 2e-5);
    let expected = arrays(&oracle, "pend");
    for ((name, actual), expected) in NAMES.iter().zip(&outcome.parameters).zip(&expected) {
        assert_close(name, &floats(actual), expected, 1e-5);
    }
}

#[test]
fn the_first_gradients_follow_the_oracle() {
    let Some(oracle) = Oracle::find(ORACLE) else { return };
    let expected = arrays(&oracle, "g0");
    let device = Device::simulator().unwrap();
    let training = Training::new(&device).unwrap();
    let (pixels, labels) = training.batch().unwrap();
    let (_, gradients) = training.model().loss_and_gradients(&pixels, &labels).unwrap();
    for ((name, gradient), expected) in NAMES.iter().zip(&gradients).zip(&expected) {
        assert_close(name, &gradient.to_vec().unwrap(), expected, 1e-5);
    }
}

#[test]
fn initial_parameters_are_those_of_the_oracle() {
    let Some(oracle) = Oracle::find(ORACLE) else { return };
    assert_eq!(initial_parameters(), arrays(&oracle, "p0"));
}

#[test]
fn chips_give_the_same_bits_in_every_mode_and_come_close_to_the_exact_losses() {
    let steps = 20;
    let exact = floats(&train(&open(Mode::Fused, 1, Isa::best()), steps).losses);
    for profile in ["v5e", "v6e"] {
        for (precision, tolerance) in [(Precision::Default, 2e-2), (Precision::High, 2e-4), (Precision::Highest, 2e-5)]
        {
            let train = |mode, threads, isa| {
                let profile = profile.to_owned();
                let device = Device::open(Config { profile, mode, threads, isa: Some(isa), ..Config::default() });
                with_precision(precision, || train(&device.unwrap(), steps))
            };
            let expected = train(Mode::Strict, 1, Isa::PORTABLE);
            assert_close(profile, &floats(&expected.losses), &exact, tolerance);
            for isa in Isa::available() {
                for (mode, threads) in [(Mode::Debug, 1), (Mode::Strict, 2), (Mode::Fused, 1), (Mode::Fused, 2)] {
                    let outcome = train(mode, threads, isa);
                    assert!(outcome == expected, "{mode} on {threads} threads of {isa}, {profile}, differs");
                }
            }
        }
    }
}

#[test]
fn bits_are_the_same_in_every_mode_on_any_threads_and_instruction_set() {
    let expected = train(&open(Mode::Strict, 1, Isa::PORTABLE), STEPS);
    for isa in Isa::available() {
        for threads in [1, 2] {
            for mode in Mode::ALL {
                let outcome = train(&open(mode, threads, isa), STEPS);
                assert!(outcome == expected, "{mode} on {threads} threads of {isa} differs");
            }
        }
    }
}

#[test]
fn a_cold_and_a_warm_cache_give_the_same_bits() {
    let device = Device::simulator().unwrap();
    let cold = train(&device, 20);
    let builds = device.stats().plans.builds;
    let warm = train(&device, 20);
    assert_eq!(cold, warm);
    device.clear_caches();
    assert_eq!(cold, train(&device, 20));
    assert!(device.stats().plans.builds > builds, "plans that were forgotten are built again");
}

#[test]
fn no_plan_is_built_from_the_third_step_on() {
    for mode in Mode::ALL {
        let device = open(mode, 1, Isa::best());
        let mut training = Training::new(&device).unwrap();
        let mut losses = Vec::new();
        let builds: Vec<_> = (0..60)
            .map(|_| {
                losses.extend(training.step().unwrap());
                device.stats().plans.builds
            })
            .collect();
        assert!(builds[0] > 0, "{mode}: the first step builds something");
        assert_eq!(builds[1], builds[59], "{mode}: plans built after each step: {builds:?}");
    }
}

#[test]
fn losses_fall() {
    let losses = floats(&train(&Device::simulator().unwrap(), STEPS).losses);
    let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
    assert!(mean(&losses[..20]) > 2.0 && mean(&losses[180..]) < 0.5, "{losses:?}");
}

#[test]
fn parameters_of_another_size_are_refused() {
    let device = Device::simulator().unwrap();
    let parameters = initial_parameters();
    let mut slices = parameters.each_ref().map(Vec::as_slice);
    slices[1] = &slices[1][1..];
    let error = Digits::with_parameters(&device, slices).unwrap_err();
    assert!(error.is_argument_error(), "{error}");
    assert!(error.to_string().contains("63 elements of f32 do not fill shape"), "{error}");
}

/// Steps are recorded and submitted with no program compiled, and have the right bits once there are any.
#[test]
fn steps_are_submitted_before_any_program_is_compiled() {
    let gate = Gate::closed();
    let compiler = Compiler { static_shapes: true, threads: 2, ..Compiler::default() };
    let faults = Faults::none().hold_compiles(|_| true, &gate);
    let device = Device::open(Config { compiler, faults, ..Config::default() }).unwrap();
    let mut training = Training::new(&device).unwrap();
    let losses: Vec<_> = (0..3).flat_map(|_| training.step().unwrap()).collect();
    assert!(losses.iter().all(|loss| !loss.is_ready()));
    assert_eq!(device.stats().waiting, device.stats().launches);
    gate.open();
    let outcome = Outcome {
        losses: losses.iter().flat_map(bits).collect(),
        parameters: training.parameters().iter().map(|(_, parameter)| bits(parameter)).collect(),
    };
    assert_eq!(outcome, train(&open(Mode::Strict, 1, Isa::best()), 3));
}
