//! Indexing: NumPy's results for four hundred random indices, in every mode; misuse; what it costs.

#![allow(clippy::reversed_empty_ranges, reason = "a range taken backwards counts down, as in NumPy")]

mod refusal;

use std::fmt::Debug;

use expect_test::expect;
use systole::{Config, DType, Device, Ellipsis, Index, Mode, NewAxis, REST, Result, Stream, Tensor, stride, with_mode};

use refusal::refused;

fn open() -> Device {
    Device::open(Config { threads: 1, ..Config::default() }).expect("the simulator opens")
}

/// The index of each element, as i32.
fn counting(device: &Device, shape: &[usize]) -> Tensor {
    let elements: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
    Tensor::from_slice(device, &elements, shape).expect("there is memory for it")
}

fn numbers<T: std::str::FromStr<Err: Debug>>(text: &str, separator: char) -> Vec<T> {
    text.split(separator).map(str::trim).filter(|word| !word.is_empty()).map(|word| word.parse().expect(word)).collect()
}

/// An index as the corpus writes it.
fn index(device: &Device, text: &str) -> Index {
    use systole::AsIndex;
    if text == "..." {
        return Index::Ellipsis;
    }
    if text == "None" {
        return Index::NewAxis;
    }
    if let Some((shape, elements)) = text.strip_prefix('[').and_then(|rest| rest.split_once("]=")) {
        let elements: Vec<i64> = numbers(elements, ',');
        let shape: Vec<usize> = numbers(shape, ',');
        return Index::Tensor(Tensor::from_slice(device, &elements, shape).expect("NumPy wrote both"));
    }
    if let [start, end, step] = text.split(':').collect::<Vec<_>>()[..] {
        let number = |text: &str| (!text.is_empty()).then(|| text.parse::<isize>().expect("a bound"));
        let step = number(step).unwrap_or(1);
        return match (number(start), number(end)) {
            (None, None) => stride(.., step),
            (None, Some(end)) => stride(..end, step),
            (Some(start), None) => stride(start.., step),
            (Some(start), Some(end)) => stride(start..end, step),
        }
        .as_index();
    }
    Index::At(text.parse().expect("a number"))
}

#[test]
fn results_are_those_of_numpy() {
    let device = open();
    let corpus = include_str!("corpus/indexing.txt");
    let (mut checked, mut refused) = (0, 0);
    for line in corpus.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let x = counting(&device, &numbers(fields[0], ','));
        let indices: Vec<Index> = fields[1]
            .split(';')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(|text| index(&device, text))
            .collect();
        if fields[2] == "error" {
            assert!(x.i(&indices[..]).is_err_and(|error| error.is_argument_error()), "{line}");
            refused += 1;
            continue;
        }
        for mode in Mode::ALL {
            let found = with_mode(mode, || {
                let result = x.i(&indices[..])?;
                Ok::<_, systole::Error>((result.shape().to_vec(), result.to_vec::<i32>()?))
            });
            let expected = (numbers(fields[2], ','), numbers(fields.get(3).unwrap_or(&""), ' '));
            assert_eq!(found.unwrap_or_else(|error| panic!("{line}: {error}")), expected, "{mode}: {line}");
        }
        checked += 1;
    }
    assert!(checked > 350 && refused > 10, "{checked} results and {refused} errors in the corpus");
}

#[test]
fn what_rust_writes_is_what_numpy_reads() -> Result<()> {
    let device = open();
    let x = counting(&device, &[3, 4]);
    let check = |found: Tensor, shape: &[usize], elements: &[i32]| {
        assert_eq!((&found.shape()[..], &found.to_vec::<i32>().expect("computes")[..]), (shape, elements));
    };
    check(x.i(())?, &[3, 4], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    check(x.i(1)?, &[4], &[4, 5, 6, 7]);
    check(x.i((-1, -1))?, &[], &[11]);
    check(x.i((1usize..=2, 0u32))?, &[2], &[4, 8]);
    check(x.i((..=-2, 2..))?, &[2, 2], &[2, 3, 6, 7]);
    check(x.i((..=-1, ..1))?, &[3, 1], &[0, 4, 8]);
    check(x.i((stride(.., -1), 0))?, &[3], &[8, 4, 0]);
    check(x.i((0, stride(3..=1, -2)))?, &[2], &[3, 1]);
    check(x.i((0, stride(2..=0, -1)))?, &[3], &[2, 1, 0]);
    check(x.i((0, 7..))?, &[0], &[]);
    check(x.i((0, -100..100))?, &[4], &[0, 1, 2, 3]);
    check(x.i((NewAxis, Ellipsis, 3))?, &[1, 3], &[3, 7, 11]);
    let mixed = (Tensor::from_slice(&device, &[0u32, 2], [2])?, Tensor::from_slice(&device, &[-1i32], [1])?);
    check(x.i((&mixed.0, &mixed.1))?, &[2], &[3, 11]);
    check(x.take(-1, &mixed.1.reshape([1, 1])?)?, &[3, 1, 1], &[3, 7, 11]);
    check(x.reshape([2, REST])?.i((1, 4))?, &[], &[10]);
    Ok(())
}

/// Indices that change nothing record nothing; numbers and ranges are one slice and at most one reshape.
#[test]
fn only_what_moves_elements_is_recorded() -> Result<()> {
    let device = open();
    let x = counting(&device, &[3, 4]);
    let recorded = |record: &dyn Fn() -> Result<Tensor>| -> Result<u64> {
        let before = device.stats().ops;
        let kept = record()?;
        device.flush();
        drop(kept);
        Ok(device.stats().ops - before)
    };
    assert_eq!(recorded(&|| x.i((.., 0..4)))?, 0);
    assert_eq!(recorded(&|| x.i((0.., 1..3)))?, 1);
    assert_eq!(recorded(&|| x.i((.., NewAxis)))?, 1);
    assert_eq!(recorded(&|| x.i((0, 1..3)))?, 2);
    let ids = Tensor::from_slice(&device, &[1u32, 0], [2])?;
    assert_eq!(recorded(&|| x.i(&ids))?, 1);
    Ok(())
}

/// Positions are numbers of the program, not of its structure.
#[test]
fn a_loop_over_positions_builds_nothing_new() -> Result<()> {
    let device = open();
    let x = counting(&device, &[64, 8]).convert(DType::F32)?;
    let stream = Stream::current(&device);
    let mut builds = Vec::new();
    for position in 0..60 {
        let row = x.i((position, 2..7))?.add(1.0)?;
        assert_eq!(row.to_vec::<f32>()?[0], (8 * position + 3) as f32);
        builds.push(device.stats().plans.builds);
    }
    drop(stream);
    assert_eq!(builds[4], builds[59], "{builds:?}");
    Ok(())
}

#[test]
fn misuse() -> Result<()> {
    let device = open();
    let x = counting(&device, &[2, 3]);
    let ids = |count: usize| counting(&device, &[count]);
    let result = x.i((0, 1, 2));
    refused(result, expect!["i(tensor<2x3xi32>): 3 indices for rank 2"]);
    let result = x.i((.., 3));
    refused(result, expect!["i(tensor<2x3xi32>): index 3 is out of range for axis 1, whose extent is 3"]);
    let result = x.i(-3);
    refused(result, expect!["i(tensor<2x3xi32>): index -3 is out of range for axis 0, whose extent is 2"]);
    let result = x.i((Ellipsis, 0, Ellipsis));
    refused(result, expect!["i(tensor<2x3xi32>): more than one Ellipsis"]);
    let result = x.i(stride(.., 0));
    refused(result, expect!["i(tensor<2x3xi32>): the step along axis 0 is 0"]);
    let result = x.i(&x.gt(2)?);
    refused(
        result,
        expect![
            "i(tensor<2x3xi32>, tensor<2x3xi1>): the index of axis 0 is a bool mask, whose result has a shape that only its elements know; choose with `select` instead"
        ],
    );
    let result = x.i((0, &x.convert(DType::F32)?));
    refused(
        result,
        expect!["i(tensor<2x3xi32>, tensor<2x3xf32>): the index of axis 1 is f32, not of an integer dtype"],
    );
    let result = x.i((&ids(2), &ids(3)));
    refused(result, expect!["i(tensor<2x3xi32>, tensor<2xi32>, tensor<3xi32>): the indices' shapes do not broadcast"]);
    let result = x.i(0..0)?.i(ids(1));
    refused(
        result,
        expect!["i(tensor<0x3xi32>, tensor<1xi32>): there is nothing to choose from along axis 0, whose extent is 0"],
    );
    let result = x.take(2, &ids(1));
    refused(result, expect!["take(tensor<2x3xi32>): no dimension 2 in rank 2"]);
    let result = x.narrow(-1, 2, 2);
    refused(
        result,
        expect!["narrow(tensor<2x3xi32>): 2 indices from 2 on do not lie within axis -1, whose extent is 3"],
    );
    let result = x.reshape([REST, REST]);
    refused(result, expect!["reshape(tensor<2x3xi32>): more than one REST"]);
    let result = x.reshape([4, REST]);
    refused(result, expect!["reshape(tensor<2x3xi32>): no REST beside [4] holds the 6 elements of [2, 3]"]);
    let result = x.unsqueeze(3);
    refused(result, expect!["unsqueeze(tensor<2x3xi32>): no dimension 3 in rank 3 of the result"]);
    let result = x.squeeze(1);
    refused(result, expect!["squeeze(tensor<2x3xi32>): dimension 1 has extent 3, not 1"]);
    let result = x.flatten(1, 0);
    refused(result, expect!["flatten(tensor<2x3xi32>): dimension 1 comes after 0"]);
    let result = x.swap_axes(0, 2);
    refused(result, expect!["swap_axes(tensor<2x3xi32>): no dimension 2 in rank 2"]);
    let result = Tensor::stack(&[], 0);
    refused(result, expect!["stack(): takes at least 1 tensor"]);
    let result = Tensor::stack(&[&x, &ids(2)], 0);
    refused(result, expect!["stack(tensor<2x3xi32>, tensor<2xi32>): shapes [2, 3] and [2] differ"]);
    let result = Tensor::stack(&[&x], 3);
    refused(result, expect!["stack(tensor<2x3xi32>): no dimension 3 in rank 3 of the result"]);
    let result = x.split(&[1, 1], 1);
    refused(result, expect!["split(tensor<2x3xi32>): [1, 1] do not sum to 3, the extent of axis 1"]);
    let result = x.chunk(0, 0);
    refused(result, expect!["chunk(tensor<2x3xi32>): 0 parts hold nothing"]);
    let result = ids(2).tril(0);
    refused(result, expect!["tril(tensor<2xi32>): takes rank 2 or more, not 1"]);
    let result = x.tile(&[usize::MAX, 2]);
    refused(
        result,
        expect![
            "broadcast_in_dim(tensor<2x3xi32>): the result tensor<18446744073709551615x2x2x3xi32> takes more than 9223372036854775807 bytes"
        ],
    );
    let result = x.select(1, 2);
    refused(
        result,
        expect!["select(tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xi32>): the predicate is i32, not bool"],
    );
    let result = x.gt(2)?.select(1, 2.0);
    refused(result, expect!["select(tensor<2x3xi1>): one choice is a number of dtype i32, the other of f32"]);
    let result = x.gt(2)?.select(&x, 2.5);
    refused(result, expect!["select(tensor<2x3xi1>): 2.5 is no i32, the dtype of the tensor it meets"]);
    Ok(())
}

#[test]
fn tensors_out_of_range_are_errors_in_debug_mode_and_clamp_elsewhere() -> Result<()> {
    let device = open();
    let x = counting(&device, &[2, 3]);
    let ids = Tensor::from_slice(&device, &[-7i32, -3, 2, 5], [4])?;
    for mode in [Mode::Strict, Mode::Fused] {
        assert_eq!(with_mode(mode, || x.i((1, &ids))?.to_vec::<i32>())?, [3, 3, 5, 5]);
    }
    device.set_mode(Mode::Debug);
    let result = x.i((1, &ids));
    refused(result, expect!["i(tensor<2x3xi32>, tensor<4xi32>): index -7 (element 0 of shape [4]) is outside -3..=2"]);
    Ok(())
}

#[test]
fn choices_of_numbers_have_their_dtype() -> Result<()> {
    let device = open();
    let pred = Tensor::from_slice(&device, &[true, false], [2])?;
    assert_eq!(pred.select(1.5, 0.0)?.to_vec::<f32>()?, [1.5, 0.0]);
    assert_eq!(pred.select(1.5f32, 0.0)?.dtype(), DType::F32);
    assert_eq!(pred.select(1i64, 2i64)?.to_vec::<i64>()?, [1, 2]);
    assert_eq!(pred.select(false, true)?.to_vec::<bool>()?, [false, true]);
    assert_eq!(pred.select(true, &pred)?.to_vec::<bool>()?, [true, false]);
    let n = counting(&device, &[2, 1]);
    assert_eq!(pred.select(&n, 7)?.to_vec::<i32>()?, [0, 7, 1, 7]);
    assert_eq!(n.clamp(counting(&device, &[2]), 5)?.to_vec::<i32>()?, [0, 1, 1, 1]);
    Ok(())
}
