//! The machine against a slow interpreter of programs: every instruction set, one and two threads, own and shared memory.

mod cases;
mod generate;
mod oracle;

use std::panic::{AssertUnwindSafe, catch_unwind};

use generate::{Case, case};
use systole_kernels::machine::{Input, Machine};
use systole_kernels::memory::Block;
use systole_kernels::parallel::{Inline, Parallel, Pool};
use systole_kernels::simd::Isa;
use systole_kernels::{DType, Scalar};

/// The elements as a buffer.
fn block(dtype: DType, elements: &[Scalar]) -> Block {
    let bytes: Vec<u8> = elements.iter().flat_map(|e| e.to_le_bytes()[..dtype.size()].to_vec()).collect();
    Block::from_bytes(&bytes).expect("the host has memory for a test")
}

/// The buffer as elements.
fn elements(dtype: DType, block: &Block) -> Vec<Scalar> {
    block.bytes().chunks_exact(dtype.size()).map(|bytes| Scalar::from_le_bytes(dtype, bytes)).collect()
}

/// Runs a case, the input of `shared` in the memory of its output.
fn run(case: &Case, machine: &Machine, shared: Option<(u16, u16)>, pool: &dyn Parallel) -> Vec<Vec<Scalar>> {
    let program = &case.program;
    let blocks: Vec<Block> =
        program.buffers.iter().zip(&case.inputs).map(|(buffer, elements)| block(buffer.dtype, elements)).collect();
    let types = program.output_types(&case.params);
    let mut outputs: Vec<Block> = types
        .iter()
        .map(|ty| {
            let mut block = Block::new(ty.byte_len()).expect("the host has memory for a test");
            // Whatever is not written shows.
            block.bytes_mut().fill(1);
            block
        })
        .collect();
    let mut inputs: Vec<Input<'_>> = blocks.iter().map(|block| Input::Bytes(block.bytes())).collect();
    if let Some((input, output)) = shared {
        outputs[usize::from(output)].bytes_mut().copy_from_slice(blocks[usize::from(input)].bytes());
        inputs[usize::from(input)] = Input::Output(output);
    }
    let mut refs: Vec<&mut Block> = outputs.iter_mut().collect();
    machine.run(&case.params, &case.scalars, &inputs, &mut refs, pool).expect("the arguments fit the program");
    types.iter().zip(&outputs).map(|(ty, block)| elements(ty.dtype, block)).collect()
}

/// A pool that finds any work worth splitting, so that launches are cut finely.
#[derive(Debug)]
struct Eager<P>(usize, P);

impl<P: Parallel> Parallel for Eager<P> {
    fn threads(&self) -> usize {
        self.0
    }

    fn grain(&self) -> usize {
        0
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.1.run(tasks, task);
    }
}

/// Compares a case with the interpreter in every way it can be run; gives the number of in-place pairs.
fn check(case: &Case, pools: &[&dyn Parallel]) -> usize {
    let expected = oracle::interpret(&case.program, &case.params, &case.scalars, &case.inputs);
    let mut pairs = 0;
    for isa in Isa::available() {
        let machine =
            Machine::new(case.program.clone(), isa).unwrap_or_else(|error| panic!("{error}\n{:#?}", case.program));
        let shared = machine.in_place().iter().map(|&pair| Some(pair));
        pairs = machine.in_place().len();
        for shared in shared.chain([None]) {
            for &pool in pools {
                let how = format!("{isa}, {pool:?}, shared {shared:?}");
                compare(case, &run(case, &machine, shared, pool), &expected, &how);
            }
        }
    }
    pairs
}

fn compare(case: &Case, outputs: &[Vec<Scalar>], expected: &[Vec<Scalar>], how: &str) {
    for (n, (got, expected)) in outputs.iter().zip(expected).enumerate() {
        if let Some(at) = (0..expected.len()).find(|&at| got[at] != expected[at]) {
            panic!(
                "output {n}, element {at}: {:?} instead of {:?} on {how}, parameters {:?}\n{:#?}",
                got[at], expected[at], case.params, case.program
            );
        }
    }
}

#[test]
fn random_programs_agree_with_the_interpreter() {
    let pool = Eager(2, Pool::new(2));
    let mut pairs = 0;
    for seed in 0..700 {
        let case = case(seed);
        let result = catch_unwind(AssertUnwindSafe(|| check(&case, &[&Inline, &pool, &Eager(3, Inline)])));
        match result {
            Ok(found) => pairs += found,
            Err(payload) => {
                panic!("seed {seed}: {}", payload.downcast_ref::<String>().map_or("", String::as_str))
            }
        }
    }
    assert!(pairs > 50, "the programs seldom work in place: {pairs}");
}

/// A program with its launch parameters written in takes none and computes the same, in its own pairs of shared memory
/// too.
#[test]
fn specialized_programs_agree_with_the_interpreter() {
    let mut pairs = 0;
    for seed in 0..300 {
        let case = case(seed);
        let expected = oracle::interpret(&case.program, &case.params, &case.scalars, &case.inputs);
        let program = case.program.specialize(&case.params);
        let special = Case { program, params: Vec::new(), ..case };
        assert_eq!(special.program.params, 0);
        let machine = Machine::new(special.program.clone(), Isa::best());
        let machine = machine.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{:#?}", special.program));
        pairs += machine.in_place().len();
        for shared in machine.in_place().iter().map(|&pair| Some(pair)).chain([None]) {
            let outputs = run(&special, &machine, shared, &Eager(3, Inline));
            compare(&special, &outputs, &expected, &format!("seed {seed}, shared {shared:?}"));
        }
    }
    assert!(pairs > 20, "the programs seldom work in place: {pairs}");
}
