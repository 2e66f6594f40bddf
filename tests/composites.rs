//! Composites: the same bits in every mode, and the numbers that NumPy gives for their formulas in f64.

mod refusal;

use expect_test::expect;
use systole::kernels::bf16;
use systole::{Config, DType, Device, Error, Mode, Origin, Result, Tensor, with_mode};

use refusal::refused;

fn open() -> Device {
    Device::open(Config { threads: 1, ..Config::default() }).expect("the simulator opens")
}

/// `((i * factor) % modulus - offset) / divisor` for each index, as the NumPy that made the expected numbers had it.
fn data(device: &Device, shape: &[usize], [factor, modulus, offset, divisor]: [i64; 4]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>() as i64)
        .map(|i| ((i * factor) % modulus - offset) as f32 / divisor as f32)
        .collect();
    Tensor::from_slice(device, &elements, shape).expect("there is memory for it")
}

const PLAIN: [i64; 4] = [37, 101, 50, 16];

/// What `body` gives in each mode: the same bits.
fn in_each_mode(body: impl Fn() -> Result<Tensor>) -> Tensor {
    let run = |mode| {
        with_mode(mode, || {
            let result = body()?;
            let bytes = result.to_bytes()?;
            Ok((result, bytes))
        })
        .unwrap_or_else(|error: Error| panic!("{mode}: {error}"))
    };
    let [(_, debug), (_, strict), (fused, bytes)] = Mode::ALL.map(run);
    assert_eq!(debug, strict);
    assert_eq!(debug, bytes, "debug and fused");
    fused
}

/// Asserts that `body` gives `expected` within a few roundings, and the same bits in each mode.
#[track_caller]
fn check(body: impl Fn() -> Result<Tensor>, shape: &[usize], expected: &[f32]) {
    let result = in_each_mode(body);
    assert_eq!(result.shape()[..], *shape);
    let found = result.to_vec::<f32>().expect("it was read before");
    assert_eq!(found.len(), expected.len());
    for (at, (&a, &b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(0.5), "element {at}: {a} instead of {b} in {found:?}");
    }
}

#[test]
fn activations() {
    let device = open();
    let x = data(&device, &[2, 4], PLAIN);
    check(
        || x.softmax(-1),
        &[2, 4],
        &[0.008697871, 0.087845385, 0.887207, 0.016249763, 0.07602904, 0.7678661, 0.014063957, 0.14204094],
    );
    check(
        || x.softmax(0),
        &[2, 4],
        &[0.05033063, 0.05033063, 0.966914, 0.05033063, 0.94966936, 0.94966936, 0.03308598, 0.94966936],
    );
    check(
        || x.log_softmax(1),
        &[2, 4],
        &[-4.744677, -2.432177, -0.11967698, -4.119677, -2.57664, -0.26413995, -4.26414, -1.95164],
    );
    check(
        || x.silu(),
        &[2, 4],
        &[-0.13152415, -0.24972838, 1.2263618, -0.18964545, -0.0849866, 1.8982825, -0.24930795, 0.26585263],
    );
    check(
        || x.gelu(),
        &[2, 4],
        &[-0.0027782042, -0.16920507, 1.3997892, -0.015524163, -0.07980643, 2.0893142, -0.05699318, 0.29274246],
    );
    check(
        || x.gelu_tanh(),
        &[2, 4],
        &[-0.002415875, -0.16929302, 1.3995715, -0.015084266, -0.07980683, 2.0895195, -0.057000965, 0.2927319],
    );
    check(|| x.relu(), &[2, 4], &[0.0, 0.0, 1.5, 0.0, 0.0, 2.125, 0.0, 0.4375]);
}

#[test]
fn normalizations_and_statistics() {
    let device = open();
    let x = data(&device, &[2, 4], PLAIN);
    let (weight, bias) = (data(&device, &[4], [3, 7, 3, 4]), data(&device, &[4], [5, 11, 5, 8]));
    check(
        || x.layer_norm(Some(&weight), Some(&bias), 1e-5),
        &[2, 4],
        &[0.16670758, 0.0, 1.7700316, 0.05166202, -0.46125898, 0.0, -0.42294246, -0.17958033],
    );
    check(
        || x.layer_norm(None, None, 1e-5),
        &[2, 4],
        &[-1.0556101, 0.23554936, 1.5267088, -0.7066481, -0.21832134, 1.3972566, -1.3972566, 0.21832134],
    );
    check(
        || x.rms_norm(Some(&weight), 1e-6),
        &[2, 4],
        &[1.0774927, 0.0, 0.5171965, 0.28733137, 0.097872324, 0.0, -0.9787233, -0.076122925],
    );
    let y = data(&device, &[2, 3, 4], PLAIN);
    check(|| y.mean([0, -1]), &[3], &[-0.7734375, 0.5859375, -0.421875]);
    check(|| y.mean_keepdims([0, -1]), &[1, 3, 1], &[-0.7734375, 0.5859375, -0.421875]);
    let sample = [8.628906, 3.3684895, 3.3684895, 3.3684895, 3.3684895, 3.3684895, 3.3684895, 3.3684895];
    check(|| y.var(1, 1), &[2, 4], &sample);
    check(|| y.var_keepdims(-2, 1), &[2, 1, 4], &sample);
    check(|| y.var(.., 0), &[], &[3.3884277]);
    let one = data(&device, &[1], PLAIN);
    assert!(one.var(0, 1).and_then(|v| v.item::<f32>()).expect("computes").is_nan(), "0 / 0, as in NumPy and PyTorch");
}

#[test]
fn products() {
    let device = open();
    let a = data(&device, &[2, 1, 3, 4], [13, 17, 8, 4]);
    let b = data(&device, &[3, 4, 2], [11, 19, 9, 4]);
    check(
        || a.matmul(&b),
        &[2, 3, 3, 2],
        &[
            2.4375, 2.5625, 1.3125, 3.0, 0.1875, 3.4375, 2.25, 1.1875, 2.9375, 1.0625, 3.625, 0.9375, 0.875, -6.125,
            1.0, -6.8125, 1.125, -7.5, -0.9375, 3.875, 4.3125, -1.0, 3.1875, -0.5625, 4.3125, 0.8125, -1.375, 2.8125,
            -0.6875, 2.6875, 1.25, -8.1875, 2.4375, 0.6875, 2.5625, 0.0,
        ],
    );
    let row = data(&device, &[4], [13, 17, 8, 4]);
    check(|| row.matmul(&b), &[3, 2], &[2.4375, 2.5625, 2.25, 1.1875, 0.875, -6.125]);
    let column = data(&device, &[4], [11, 19, 9, 4]);
    check(|| a.matmul(&column), &[2, 1, 3], &[3.8125, 3.3125, 2.8125, 2.3125, -0.3125, -0.8125]);
    let matrix = data(&device, &[4, 2], [11, 19, 9, 4]);
    let expected = [2.4375, 2.5625, 1.3125, 3.0, 0.1875, 3.4375, -0.9375, 3.875, 4.3125, -1.0, 3.1875, -0.5625];
    check(|| a.matmul(&matrix), &[2, 1, 3, 2], &expected);
    check(|| a.linear(&matrix.t()?, None), &[2, 1, 3, 2], &expected);
    let bias = data(&device, &[2], [1, 2, 0, 2]);
    let shifted: Vec<f32> = expected.iter().enumerate().map(|(at, x)| x + (at % 2) as f32 / 2.0).collect();
    check(|| a.linear(&matrix.t()?, Some(&bias)), &[2, 1, 3, 2], &shifted);
    check(|| row.linear(&matrix.t()?, None), &[2], &[2.4375, 2.5625]);
    check(|| row.matmul(&column), &[], &[3.8125]);
}

/// A weight is read where it lies: a linear layer is one product.
#[test]
fn linear_moves_no_weight() -> Result<()> {
    let device = open();
    let (x, weight) = (data(&device, &[2, 3, 4], PLAIN), data(&device, &[5, 4], PLAIN));
    let recorded = with_mode(Mode::Strict, || {
        x.linear(&weight, None)?;
        device.synchronize()
    });
    recorded?;
    assert_eq!(device.stats().ops, 1);
    Ok(())
}

#[test]
fn attention() {
    let device = open();
    let query = data(&device, &[2, 3, 4], [29, 97, 48, 32]);
    let key = data(&device, &[2, 5, 4], [31, 89, 44, 32]);
    let value = data(&device, &[2, 5, 3], [23, 83, 41, 32]);
    let plain = [
        -0.19562721,
        0.17604399,
        -0.32128212,
        -0.5656296,
        -0.029774701,
        -0.33104226,
        -0.36731982,
        0.15419456,
        -0.41634408,
        0.43982875,
        0.04817969,
        -0.4455571,
        0.38819382,
        -0.4887933,
        -0.18326253,
        0.3813272,
        -0.5114313,
        -0.21768667,
    ];
    check(|| query.attention(&key, &value, None, None), &[2, 3, 3], &plain);
    let seen = [1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0].map(|seen| seen == 1);
    let mask = Tensor::from_slice(&device, &seen, [3, 5]).expect("there is memory for it");
    check(
        || query.attention(&key, &value, Some(&mask), None),
        &[2, 3, 3],
        &[
            -0.37906244,
            -0.10794998,
            -0.2061242,
            -1.1994383,
            -0.4806883,
            0.2380617,
            0.4375,
            1.15625,
            -0.71875,
            0.40172848,
            0.14999798,
            -0.45810783,
            -0.624698,
            0.094052024,
            0.043355055,
            0.84375,
            -1.03125,
            -0.3125,
        ],
    );
    let bias = data(&device, &[2, 1, 5], [7, 13, 6, 4]);
    check(
        || query.attention(&key, &value, Some(&bias), Some(0.25)),
        &[2, 3, 3],
        &[
            0.15862854,
            0.14522225,
            -0.6177014,
            0.053437427,
            0.22620994,
            -0.71986365,
            0.0721978,
            0.26822788,
            -0.7231136,
            0.104927085,
            0.14448689,
            -0.61879843,
            0.22771974,
            -0.31050462,
            -0.32736918,
            0.23008388,
            -0.3032999,
            -0.35384387,
        ],
    );
    // A batch of its own for one operand, none for another.
    let heads = |x: &Tensor| x.broadcast_in_dim([2, 2, x.shape()[1], x.shape()[2]], &[0, 2, 3]);
    let twice = || heads(&query)?.attention(&heads(&key)?, &heads(&value)?, None, None);
    let expected: Vec<f32> = [&plain[..9], &plain[..9], &plain[9..], &plain[9..]].concat();
    check(twice, &[2, 2, 3, 3], &expected);
}

#[test]
fn losses() {
    let device = open();
    let logits = data(&device, &[3, 4], PLAIN);
    let labels = Tensor::from_slice(&device, &[2i32, 0, 3], [3]).expect("there is memory for it");
    check(|| logits.cross_entropy(&labels), &[], &[2.8572314]);
    check(|| logits.reshape([1, 3, 4])?.cross_entropy(&labels.reshape([1, 3])?), &[], &[2.8572314]);
}

/// Halves are computed in f32 and rounded once.
#[test]
fn composites_of_halves_round_once() -> Result<()> {
    let device = open();
    let x = data(&device, &[3, 200], PLAIN);
    let (weight, labels) = (data(&device, &[200], [3, 7, 3, 4]), Tensor::iota(&device, DType::I32, [3], 0)?);
    type Composite = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;
    let composites: [Composite; 11] = [
        |x, _, _| x.softmax(-1),
        |x, _, _| x.softmax(0),
        |x, _, _| x.log_softmax(-1),
        |x, _, _| x.gelu(),
        |x, _, _| x.gelu_tanh(),
        |x, _, _| x.silu(),
        |x, w, _| x.layer_norm(Some(w), Some(w), 1e-5),
        |x, w, _| x.rms_norm(Some(w), 1e-5),
        |x, _, _| x.mean(..),
        |x, _, _| x.var_keepdims(0, 1),
        |x, _, labels| x.cross_entropy(labels),
    ];
    for dtype in [DType::F16, DType::BF16] {
        for (at, composite) in composites.iter().enumerate() {
            let (narrow, weight) = (x.convert(dtype)?, weight.convert(dtype)?);
            let found = in_each_mode(|| composite(&narrow, &weight, &labels));
            assert_eq!(found.dtype(), dtype);
            let wide = composite(&narrow.convert(DType::F32)?, &weight.convert(DType::F32)?, &labels)?;
            assert_eq!(found.to_bytes()?, wide.convert(dtype)?.to_bytes()?, "composite {at} of {dtype}");
        }
    }
    // The sum would not fit f16, the mean does.
    let large = Tensor::full(&device, 60_000.0f32, [64])?.convert(DType::F16)?;
    assert_eq!(large.mean(..)?.convert(DType::F32)?.item::<f32>()?, 60_000.0);
    let (query, value) = (x.convert(DType::BF16)?, x.convert(DType::BF16)?);
    let attended = in_each_mode(|| query.attention(&query, &value, None, None));
    assert_eq!(attended.dtype(), DType::BF16);
    assert!(attended.to_vec::<bf16>()?.iter().all(|x| x.to_f32().is_finite()));
    Ok(())
}

#[test]
fn extremes() -> Result<()> {
    let device = open();
    let row = |elements: &[f32]| Tensor::from_slice(&device, elements, [1, elements.len()]);
    let (high, low) = (f32::MAX, f32::NEG_INFINITY);
    assert_eq!(row(&[high, low, high])?.softmax(-1)?.to_vec::<f32>()?, [0.5, 0.0, 0.5]);
    assert!(row(&[low, low])?.softmax(-1)?.to_vec::<f32>()?.iter().all(|x| x.is_nan()));
    assert_eq!(row(&[0.0, -1e30])?.log_softmax(-1)?.to_vec::<f32>()?, [0.0, -1e30]);
    assert!(row(&[])?.softmax(-1)?.to_vec::<f32>()?.is_empty());
    assert!(row(&[])?.layer_norm(None, None, 1e-5)?.to_vec::<f32>()?.is_empty());
    assert_eq!(row(&[3.0])?.layer_norm(None, None, 1e-5)?.to_vec::<f32>()?, [0.0]);
    let nothing = row(&[])?.reshape([0, 1])?;
    let no_labels = Tensor::from_slice::<i32>(&device, &[], [0])?;
    assert!(nothing.cross_entropy(&no_labels)?.item::<f32>()?.is_nan(), "a mean of nothing is 0 / 0");
    let (no_rows, no_ids) = (row(&[])?.reshape([0, 3])?, no_labels);
    assert_eq!(no_rows.embedding(&no_ids)?.shape()[..], [0, 3]);
    Ok(())
}

#[test]
fn misuse_names_the_composite_and_its_argument() -> Result<()> {
    let device = open();
    let (x, n) = (data(&device, &[2, 3], PLAIN), Tensor::iota(&device, DType::I32, [2, 3], 0)?);
    let (four, half) = (data(&device, &[4], PLAIN), data(&device, &[3], PLAIN).convert(DType::F16)?);
    let scalar = Tensor::scalar(&device, 1.0f32)?;
    let result = x.softmax(2);
    refused(result, expect!["softmax(tensor<2x3xf32>): no dimension 2 in rank 2"]);
    let result = n.softmax(0);
    refused(result, expect!["softmax(tensor<2x3xi32>): takes a float dtype, not i32"]);
    let result = scalar.log_softmax(-1);
    refused(result, expect!["log_softmax(tensor<f32>): no dimension -1 in rank 0"]);
    let result = n.gelu();
    refused(result, expect!["gelu(tensor<2x3xi32>): takes a float dtype, not i32"]);
    let result = n.silu();
    refused(result, expect!["silu(tensor<2x3xi32>): takes a float dtype, not i32"]);
    let result = n.var(.., 0);
    refused(result, expect!["var(tensor<2x3xi32>): takes a float dtype, not i32"]);
    let result = x.layer_norm(Some(&four), None, 1e-5);
    refused(result, expect!["layer_norm(tensor<2x3xf32>, tensor<4xf32>): the weight has shape [4], not [3]"]);
    let result = x.layer_norm(None, Some(&half), 1e-5);
    refused(result, expect!["layer_norm(tensor<2x3xf32>, tensor<3xf16>): the bias is f16, not f32"]);
    let result = scalar.rms_norm(None, 1e-5);
    refused(result, expect!["rms_norm(tensor<f32>): takes rank 1 or more, not 0"]);
    let result = x.matmul(&four);
    refused(result, expect!["matmul(tensor<2x3xf32>, tensor<4xf32>): inner extents 3 and 4 differ"]);
    let result = scalar.matmul(&x);
    refused(result, expect!["matmul(tensor<f32>, tensor<2x3xf32>): both need rank 1 or more"]);
    let result = x.reshape([2, 3, 1])?.matmul(&x.reshape([3, 1, 2])?);
    refused(result, expect!["matmul(tensor<2x3x1xf32>, tensor<3x1x2xf32>): the batch dimensions do not broadcast"]);
    let result = x.linear(&four, None);
    refused(result, expect!["linear(tensor<2x3xf32>, tensor<4xf32>): the weight has rank 1, not 2"]);
    let result = x.linear(&x.t()?, None);
    refused(
        result,
        expect!["linear(tensor<2x3xf32>, tensor<3x2xf32>): the weight takes 2 inputs, the last dimension has 3"],
    );
    let result = x.linear(&x, Some(&four));
    refused(
        result,
        expect!["linear(tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>): the bias has shape [4], not [2]"],
    );
    let result = x.linear(&x.convert(DType::BF16)?, None);
    refused(result, expect!["linear(tensor<2x3xf32>, tensor<2x3xbf16>): the weight is bf16, not f32"]);
    let result = x.embedding(&x);
    refused(result, expect!["embedding(tensor<2x3xf32>, tensor<2x3xf32>): ids are f32, not of an integer dtype"]);
    let result = scalar.embedding(&n);
    refused(result, expect!["embedding(tensor<f32>, tensor<2x3xi32>): a table has rank 1 or more, not 0"]);
    let result = x.slice(&[0, 0], &[0, 3], &[1, 1])?.embedding(&n);
    refused(result, expect!["embedding(tensor<0x3xf32>, tensor<2x3xi32>): the table has no rows"]);
    let result = x.attention(&four, &x, None, None);
    refused(
        result,
        expect!["attention(tensor<2x3xf32>, tensor<4xf32>, tensor<2x3xf32>): the key has rank 1, not 2 or more"],
    );
    let result = x.attention(&x.t()?, &x, None, None);
    refused(
        result,
        expect![
            "attention(tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x3xf32>): the query's last dimension has 3 elements, the key's 2"
        ],
    );
    let result = x.attention(&x, &x.t()?, None, None);
    refused(
        result,
        expect!["attention(tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x2xf32>): there are 2 keys, but 3 values"],
    );
    let result = x.attention(&x.convert(DType::F16)?, &x, None, None);
    refused(
        result,
        expect!["attention(tensor<2x3xf32>, tensor<2x3xf16>, tensor<2x3xf32>): the key is f16, the query f32"],
    );
    let result = x.attention(&x, &x, Some(&four), None);
    refused(
        result,
        expect![
            "attention(tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>): the mask's shape [4] does not broadcast to the scores' [2, 2]"
        ],
    );
    let result = x.attention(&x, &x, Some(&n), None);
    refused(
        result,
        expect![
            "attention(tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi32>): the mask is i32, neither bool nor f32"
        ],
    );
    let result =
        x.broadcast_in_dim([2, 2, 3], &[0, 2])?.attention(&x.broadcast_in_dim([3, 2, 3], &[1, 2])?, &x, None, None);
    refused(
        result,
        expect![
            "attention(tensor<2x2x3xf32>, tensor<3x2x3xf32>, tensor<2x3xf32>): the key's batch [3] does not broadcast with [2]"
        ],
    );
    let result = x.cross_entropy(&n);
    refused(result, expect!["cross_entropy(tensor<2x3xf32>, tensor<2x3xi32>): labels have shape [2, 3], not [2]"]);
    let result = x.cross_entropy(&x.sum(1)?);
    refused(result, expect!["cross_entropy(tensor<2x3xf32>, tensor<2xf32>): labels are f32, not of an integer dtype"]);
    let result = scalar.cross_entropy(&n);
    refused(result, expect!["cross_entropy(tensor<f32>, tensor<2x3xi32>): logits have rank 1 or more, not 0"]);
    Ok(())
}

/// An index that a composite cannot take is an error of the composite, on the line that called it.
#[test]
fn a_failure_inside_a_composite_stands_on_the_callers_line() -> Result<()> {
    let device = open();
    let table = data(&device, &[3, 2], PLAIN);
    let ids = Tensor::from_slice(&device, &[0i32, 7], [2])?;
    device.set_mode(Mode::Debug);
    let result = table.embedding(&ids);
    let error = result.as_ref().expect_err("7 is no row").clone();
    let Origin::Caller(location) = error.origin() else { panic!("no place in {error:?}") };
    assert_eq!((location.file(), location.line()), (file!(), line!() - 3));
    expect!["embedding(tensor<3x2xf32>, tensor<2xi32>): id 7 (element 1 of shape [2]) is outside 0..=2"]
        .assert_eq(error.to_string().split(" (at ").next().unwrap());
    assert!(table.cross_entropy(&Tensor::from_slice(&device, &[0i32, 1, 2], [3])?).is_err(), "2 is no class of 2");
    device.set_mode(Mode::Fused);
    assert_eq!(table.embedding(&ids)?.to_vec::<f32>()?[2..], table.to_vec::<f32>()?[4..], "clamped");
    Ok(())
}
