//! Two thousand random programs: the same bits as the reference interpreter in every mode, at 1 and 2 threads, on every
//! instruction set of the machine, with cold and warm caches. `cargo run --release -p systole-fuzz --example programs`
//! does the same for any number.

use std::sync::LazyLock;

use systole::{DType, Opcode};
use systole_fuzz::{Coverage, Devices, Setup, check, cut_down, generate, text};

/// Shared by the tests below, which run side by side: so are the caches.
static DEVICES: LazyLock<Devices> = LazyLock::new(Devices::new);

/// Checks programs by seed: each on every number of threads with every instruction set, every fourth also at other
/// extents on two of those devices, whose caches then hold its plans. On failure shows the program, cut down.
fn check_seeds(seeds: std::ops::Range<u64>) {
    let mut coverage = Coverage::default();
    let mut checks = 0;
    for seed in seeds {
        let setups = Setup::one_of_each(seed);
        let program = generate(seed);
        let variant = if seed % 4 == 0 { program.variant(seed) } else { None };
        let variant = variant.map(|variant| (variant, &setups[..2]));
        for (program, setups) in std::iter::once((program, &setups[..])).chain(variant) {
            checks += setups.len() as u64;
            match check(&program, setups, &DEVICES) {
                Ok(compared) => coverage += &compared,
                Err(mismatch) => panic!("{}", cut_down(mismatch)),
            }
        }
    }
    // That the programs were worth checking.
    for &op in Opcode::ALL {
        assert!(coverage.ops(op) >= 10, "only {} of {op}\n{coverage}", coverage.ops(op));
    }
    for dtype in DType::ALL {
        assert!(coverage.results(dtype) >= 200, "only {} of {dtype}\n{coverage}", coverage.results(dtype));
    }
    assert_eq!(coverage.runs, checks * 4, "debug, strict, and fused twice");
    assert!(coverage.tensors > coverage.runs, "{coverage}");
    assert!(coverage.fused_programs * 2 > coverage.programs, "{coverage}");
    assert!(coverage.launches * 4 < coverage.fused_ops * 3, "{coverage}");
    assert!(coverage.hits * 2 >= coverage.cuts, "the second run of a program finds its plans\n{coverage}");
}

#[test]
fn programs_0_to_499() {
    check_seeds(0..500);
}

#[test]
fn programs_500_to_999() {
    check_seeds(500..1000);
}

#[test]
fn programs_1000_to_1499() {
    check_seeds(1000..1500);
}

#[test]
fn programs_1500_to_1999() {
    check_seeds(1500..2000);
}

#[test]
fn programs_that_failed_once_do_not_again() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/programs");
    let mut checked = 0;
    for entry in std::fs::read_dir(&folder).expect("the corpus is there") {
        let path = entry.expect("the corpus can be listed").path();
        let source = std::fs::read_to_string(&path).expect("a program of the corpus is text");
        let program = text::parse(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Err(mismatch) = check(&program, &Setup::all(), &DEVICES) {
            panic!("{}: {mismatch}", path.display());
        }
        checked += 1;
    }
    assert!(checked >= 6, "{checked} programs in the corpus");
}
