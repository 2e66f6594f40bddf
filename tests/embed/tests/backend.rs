//! The seam from outside: ops by name, lines of another language, memory and threads of the host's.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use expect_test::expect;
use systole::embed::Parallel;
use systole::hal::sim::{Faults, Gate};
use systole::{Config, Mode, PlanSource, with_mode};
use systole_embed::{Arena, Array, Backend, CallError, HostPool, Line};

fn line(line: u32) -> Line<'static> {
    Line { file: "train.py", line }
}

fn arena(count: usize) -> Arena {
    Arena::new((0..count).map(|i| ((i * 7) % 13) as f32 / 4.0 - 1.5).collect())
}

/// softmax(relu(x·w) + x) of matrices [512, 64] and [64, 64] that lie in `arena`.
fn program(backend: &Backend, arena: &Arena) -> Result<Array, CallError> {
    let x = backend.share(arena.part(0..32768), &[512, 64])?;
    let w = backend.share(arena.part(32768..36864), &[64, 64])?;
    let product = backend.call("aten::mm", &[&x, &w], &[], line(3))?;
    let positive = backend.call("aten::relu", &[&product], &[], line(4))?;
    let sum = backend.call("aten::add", &[&positive, &x], &[], line(5))?;
    backend.call("aten::softmax", &[&sum], &[1], line(6))
}

fn bits(array: &Array) -> Vec<u32> {
    array.read().expect("the program runs").floats().iter().map(|x| x.to_bits()).collect()
}

#[test]
fn handles_go_between_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Backend>();
    is_shared::<Array>();
    is_shared::<systole::Tensor>();
    is_shared::<systole::Device>();
    is_shared::<systole::Stream>();
    is_shared::<systole::Error>();
}

#[test]
fn every_pool_and_mode_gives_the_same_bits() {
    let arena = arena(36864);
    let own = bits(&program(&Backend::open_with(Config::default()).unwrap(), &arena).unwrap());
    for threads in [1, 2, 5] {
        let pool = Arc::new(HostPool::new(threads));
        for mode in Mode::ALL {
            let backend = Backend::open(pool.clone()).unwrap();
            assert_eq!(backend.device().capabilities().threads, threads);
            let result = with_mode(mode, || program(&backend, &arena)).unwrap();
            assert!(bits(&result) == own, "{threads} threads of the host, {mode}");
        }
        assert_eq!(pool.tasks() > 0, threads > 1, "{threads} threads did {} tasks", pool.tasks());
    }
}

#[test]
fn a_task_that_panics_fails_its_launch_and_leaves_the_device() {
    /// Panics in the first task that it is given.
    #[derive(Debug)]
    struct Fragile(std::sync::atomic::AtomicBool);
    impl Parallel for Fragile {
        fn threads(&self) -> usize {
            2
        }
        fn grain(&self) -> usize {
            1
        }
        fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
            assert!(self.0.swap(true, std::sync::atomic::Ordering::Relaxed), "the host's pool gave up");
            (0..tasks).for_each(task);
        }
    }
    let arena = arena(36864);
    let backend = Backend::open(Arc::new(Fragile(false.into()))).unwrap();
    let error = program(&backend, &arena).unwrap().read().unwrap_err();
    assert!(error.to_string().contains("the host's pool gave up"), "{error}");
    assert!(error.to_string().contains("train.py:"), "{error}");
    let own = bits(&program(&Backend::open_with(Config::default()).unwrap(), &arena).unwrap());
    assert!(bits(&program(&backend, &arena).unwrap()) == own);
}

#[test]
fn memory_is_shared_both_ways() {
    let backend = Backend::open(Arc::new(HostPool::new(2))).unwrap();
    let arena = arena(36864);
    let x = backend.share(arena.part(64..128), &[8, 8]).unwrap();
    let read = x.read().unwrap();
    assert_eq!(read.floats().as_ptr(), arena.floats()[64..].as_ptr(), "what is read is the arena itself");
    // An op reads the arena; its last user may not write into it.
    let before = arena.floats().to_vec();
    let negated = backend.call("aten::sub", &[&x, &x], &[], line(1)).unwrap();
    drop((x, read));
    assert_eq!(negated.read().unwrap().floats(), [0.0; 64]);
    assert_eq!(arena.floats(), before);
    backend.device().synchronize().unwrap();
    assert_eq!(arena.users(), 0, "every part was given back");
    // A result is borrowed where it lies.
    let (once, twice) = (negated.read().unwrap(), negated.read().unwrap());
    assert_eq!(once.floats().as_ptr(), twice.floats().as_ptr());
    drop(negated);
    assert_eq!(once.floats(), [0.0; 64], "a loan outlives its array");
}

#[test]
fn errors_name_the_front_ends_lines() {
    let backend = Backend::open(Arc::new(HostPool::new(1))).unwrap();
    let arena = arena(36864);
    let x = backend.share(arena.part(0..6), &[2, 3]).unwrap();
    let message = |result: Result<Array, CallError>| result.unwrap_err().to_string();
    expect!["no op is called aten::conv3d"].assert_eq(&message(backend.call("aten::conv3d", &[&x], &[], line(9))));
    expect!["dot_general(tensor<2x3xf32>, tensor<2x3xf32>): contracting dimension 1 of [2, 3] and 0 of [2, 3] differ: 3 against 2 (at train.py:12)"]
        .assert_eq(&message(backend.call("aten::mm", &[&x, &x], &[], line(12))));
    expect!["reduce(tensor<2x3xf32>, tensor<f32>): dimensions: 7 is no dimension of rank 2 (at train.py:13)"]
        .assert_eq(&message(backend.call("aten::sum", &[&x], &[7], line(13))));
    assert!(backend.share(arena.part(0..5), &[2, 3]).unwrap_err().to_string().contains("do not fill shape [2, 3]"));
}

#[test]
fn a_failure_in_a_fused_program_names_the_line_of_its_op() {
    let faults = Faults::none().fail_launch(0);
    let backend = Backend::open_with(Config { faults, threads: 1, ..Config::default() }).unwrap();
    let error = program(&backend, &arena(36864)).unwrap().read().unwrap_err().to_string();
    assert!(error.contains("train.py:5"), "{error}");
    let origins: Vec<String> = backend
        .device()
        .reports()
        .iter()
        .filter_map(|report| match &report.plan {
            PlanSource::Built(build) => Some(build.programs.iter().map(|program| program.origin.to_string())),
            PlanSource::Nothing | PlanSource::Cached => None,
        })
        .flatten()
        .collect();
    assert!(!origins.is_empty() && origins.iter().all(|origin| origin.starts_with("train.py:")), "{origins:?}");
}

#[test]
fn drops_on_other_threads_never_wait() {
    // The device stands still at its first launch until the gate opens.
    let gate = Gate::closed();
    let faults = Faults::none().hold_launch(0, &gate);
    let backend = Backend::open_with(Config { faults, threads: 1, ..Config::default() }).unwrap();
    let arena = arena(36864);
    let result = program(&backend, &arena).unwrap();
    backend.device().flush();
    let (give, take) = channel::<Array>();
    let dropper = thread::spawn(move || take.into_iter().for_each(drop));
    for at in 0..100 {
        let extra = backend.call("aten::exp", &[&result], &[], line(20 + at)).unwrap();
        give.send(extra).unwrap();
    }
    drop(give);
    // Were a drop to wait for the device, this would wait for ever: the gate is still shut.
    dropper.join().unwrap();
    gate.open();
    let own = bits(&program(&Backend::open_with(Config::default()).unwrap(), &arena).unwrap());
    assert!(bits(&result) == own);
}

#[test]
fn threads_have_streams_of_their_own() {
    let backend = Backend::open(Arc::new(HostPool::new(2))).unwrap();
    let arena = arena(36864);
    let expected = bits(&program(&Backend::open_with(Config::default()).unwrap(), &arena).unwrap());
    thread::scope(|scope| {
        for _ in 0..2 {
            let (backend, arena, expected) = (&backend, &arena, &expected);
            scope.spawn(move || {
                let stream = backend.stream();
                for _ in 0..20 {
                    let result = stream.enter(|| program(backend, arena)).unwrap();
                    assert!(bits(&result) == *expected);
                }
            });
        }
    });
    let mut streams: Vec<u64> = backend.device().reports().iter().map(|report| report.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    assert_eq!(streams.len(), 2);
}
