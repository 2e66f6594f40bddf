//! f16 and bf16 from the caller's side: host elements, numbers beside tensors, errors, and bits that come back in every mode.

use std::fmt::Debug;

use expect_test::{Expect, expect};
use systole::{DType, Device, DotDims, Element, Mode, Result, Tensor, bf16, f16, with_mode};

fn device() -> Device {
    Device::simulator().expect("the simulator opens")
}

/// What `compute` gives in every mode, as bits.
fn bits<T: Element>(compute: impl Fn() -> Result<Tensor>) -> Vec<u64> {
    let of = |mode| {
        let elements = with_mode(mode, || compute()?.to_vec::<T>()).expect("computes");
        elements.into_iter().map(|element| element.to_scalar().bits()).collect::<Vec<_>>()
    };
    let fused = of(Mode::Fused);
    assert_eq!(fused, of(Mode::Debug));
    assert_eq!(fused, of(Mode::Strict));
    fused
}

fn fails<T: Debug>(result: Result<T>, expected: Expect) {
    let text = result.expect_err("this must fail").to_string();
    expected.assert_eq(text.split(" (at ").next().expect("split gives one part at least"));
}

#[test]
fn elements_come_back_with_their_bits() {
    let device = device();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let halves: Vec<f16> = all.iter().map(|&bits| f16::from_bits(bits)).collect();
    let x = Tensor::from_slice(&device, &halves, [256, 256]).expect("uploads");
    assert_eq!((x.dtype(), x.ty().byte_len()), (DType::F16, 131_072));
    let expected: Vec<u64> = all.iter().map(|&bits| bits.into()).collect();
    assert_eq!(bits::<f16>(|| x.reshape([65_536])), expected);
    // What moves elements or flips their sign twice keeps all bits, signalling NaNs too.
    let bfloats: Vec<bf16> = all.iter().map(|&bits| bf16::from_bits(bits)).collect();
    let y = Tensor::from_slice(&device, &bfloats, [256, 256]).expect("uploads");
    let predicate = Tensor::full(&device, true, [256, 256]).expect("records");
    assert_eq!(
        bits::<bf16>(|| predicate.select(&y.neg()?.transpose(&[1, 0])?.transpose(&[1, 0])?.neg()?, &y)),
        expected
    );
    let absolute: Vec<u64> = expected.iter().map(|bits| bits & 0x7fff).collect();
    assert_eq!(bits::<bf16>(|| y.abs()), absolute);
}

#[test]
fn a_number_takes_the_tensor_s_dtype() {
    let device = device();
    let x = Tensor::full(&device, bf16::from_f32(256.0), [3]).expect("records");
    // 256 + 1 is a tie; the number itself is rounded once, from an f64 that no f32 holds.
    assert_eq!(bits::<bf16>(|| x.add(1)), [0x4380; 3]);
    assert_eq!(bits::<bf16>(|| x.mul(0.0)?.add(1.003_906_250_001)), [0x3f81; 3]);
    assert_eq!(bits::<bf16>(|| x.mul(0.0)?.add(0x0101_0001)), [0x4b81; 3]);
    assert_eq!(bits::<bf16>(|| x.mul(bf16::from_f32(0.5))), [0x4300; 3]);
    assert_eq!(bits::<f16>(|| x.convert(DType::F16)?.sub(f16::from_f32(0.25))), [0x5bfe; 3]);
    assert_eq!(bits::<bf16>(|| x.max(..)), [0x4380]);
    let nothing = Tensor::zeros(&device, DType::BF16, [0, 2]).expect("records");
    assert_eq!(bits::<bf16>(|| nothing.max(0)), [0xff80; 2]);
    assert_eq!(bits::<f16>(|| nothing.convert(DType::F16)?.min(0)), [0x7c00; 2]);
}

#[test]
fn sums_and_products_accumulate_in_f32() {
    let device = device();
    let ones = Tensor::ones(&device, DType::BF16, [2, 3000]).expect("records");
    assert_eq!(bits::<bf16>(|| ones.sum(-1)), [0x453c; 2], "3008, the nearest to 3000");
    assert_eq!(bits::<bf16>(|| ones.mul(2)?.sum(0)?.sum(..)), [0x463c], "12032, from 12000");
    let product = bits::<bf16>(|| ones.matmul(&ones.transpose(&[1, 0])?)?.add(0.0));
    assert_eq!(product, [0x453c; 4]);
    // A result of f32 keeps what was accumulated.
    let dims = DotDims {
        lhs_contracting: [1].into_iter().collect(),
        rhs_contracting: [1].into_iter().collect(),
        result: Some(DType::F32),
        ..DotDims::default()
    };
    assert_eq!(bits::<f32>(|| ones.dot_general(&ones, dims.clone())?.mul(0.5)), [u64::from(1500f32.to_bits()); 4]);
    let wrong = DotDims { result: Some(DType::F16), ..dims };
    fails(
        ones.dot_general(&ones, wrong),
        expect![
            "dot_general(tensor<2x3000xbf16>, tensor<2x3000xbf16>): the product of bf16 has no result of dtype f16"
        ],
    );
}

#[test]
fn errors_name_the_dtypes() {
    let device = device();
    let x = Tensor::zeros(&device, DType::BF16, [2]).expect("records");
    let y = Tensor::zeros(&device, DType::F16, [2]).expect("records");
    fails(x.add(&y), expect!["add(tensor<2xbf16>, tensor<2xf16>): operand dtypes bf16 and f16 differ"]);
    fails(x.to_vec::<f16>(), expect!["to_vec(tensor<2xbf16>): elements are bf16, not f16"]);
    fails(x.and(&x), expect!["and(tensor<2xbf16>, tensor<2xbf16>): takes bool or an integer dtype, not bf16"]);
}
