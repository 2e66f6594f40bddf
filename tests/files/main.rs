//! Tensors in files: what NumPy and the safetensors package wrote is read, the same bytes are written, and nothing that
//! is wrong with a file does more than an error.

mod damage;
#[path = "../refusal/mod.rs"]
mod refusal;
mod samples;
#[path = "../testdata/mod.rs"]
mod testdata;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;
use systole::files::{Archive, StoredTensor};
use systole::hal::sim::Faults;
use systole::{Config, DType, Device, Result, Shape, Tensor, TensorType, bf16, f16};

use refusal::{refused, refused_at};

/// The folder of a test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("files").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn device() -> Device {
    Device::open(Config { threads: 1, ..Config::default() }).unwrap()
}

/// Reads NumPy's file, compares the tensor, and writes it again.
fn check_npy(folder: &Path, name: &str, file: &[u8], expected: &Tensor) -> Vec<u8> {
    let path = folder.join(format!("{name}.npy"));
    fs::write(&path, file).unwrap();
    let read = Tensor::load_npy(&expected.device(), &path).unwrap();
    assert_eq!(read.ty(), expected.ty(), "{name}");
    assert_eq!(read.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{name}");
    read.save_npy(&path).unwrap();
    fs::read(&path).unwrap()
}

#[test]
fn numpys_files_are_read_and_written() -> Result<()> {
    let (folder, device) = (folder("numpy"), device());
    let nans = [0x7f80_0001, 0xffc0_0000, 0x3fc0_0000].map(f32::from_bits);
    let halves = [f16::from_f32(1.5), f16::from_f32(-0.0), f16::from_f32(65504.0)];
    let cases = [
        ("bool", samples::BOOL, Tensor::from_slice(&device, &[true, false, true], [3])?),
        ("i32", samples::I32, Tensor::from_slice(&device, &[1, -2, 3, i32::MIN], [2, 2])?),
        ("u32", samples::U32, Tensor::from_slice(&device, &[u32::MAX], [1])?),
        ("i64", samples::I64, Tensor::from_slice(&device, &[i64::MIN], [])?),
        ("f16", samples::F16, Tensor::from_slice(&device, &halves, [3])?),
        ("f32", samples::F32, Tensor::from_slice(&device, &nans, [1, 3])?),
        ("empty", samples::EMPTY, Tensor::from_slice::<f32>(&device, &[], [2, 0, 3])?),
    ];
    for (name, file, expected) in cases {
        let written = check_npy(&folder, name, file, &expected);
        assert!(written == file, "{name} is written otherwise than by NumPy");
    }
    Ok(())
}

#[test]
fn other_orders_and_versions_are_read() -> Result<()> {
    let (folder, device) = (folder("orders"), device());
    let six = Tensor::from_slice(&device, &[0, 1, 2, 3, 4, 5], [2, 3])?;
    check_npy(&folder, "big", samples::BIG_ENDIAN, &six);
    check_npy(&folder, "fortran", samples::FORTRAN, &six.convert(DType::F32)?);
    let eight: Vec<f16> = (0..8u8).map(|at| f16::from_f32(f32::from(at))).collect();
    check_npy(&folder, "both", samples::FORTRAN_BIG_ENDIAN, &Tensor::from_slice(&device, &eight, [2, 2, 2])?);
    for (name, file) in [("v2", samples::VERSION_2), ("v3", samples::VERSION_3)] {
        check_npy(&folder, name, file, &Tensor::from_slice(&device, &[7], [1])?);
    }
    Ok(())
}

#[test]
fn headers_are_filled_up_as_numpys_are() -> Result<()> {
    let path = folder("headers").join("x.npy");
    let device = device();
    for (shape, expected) in [
        (vec![1_000_000], 128),
        (vec![12, 345, 67], 128),
        (vec![1; 11], 128),
        (vec![1; 32], 192),
        // Already a multiple of 64: NumPy fills up with another 64.
        (vec![1; 36], 256),
    ] {
        Tensor::full(&device, true, shape.clone())?.save_npy(&path)?;
        let file = fs::read(&path).unwrap();
        assert_eq!(file.len() - shape.iter().product::<usize>(), expected, "{shape:?}");
        assert_eq!(Tensor::load_npy(&device, &path)?.shape()[..], shape);
    }
    Ok(())
}

#[test]
fn numpys_archives_are_read_in_their_order() -> Result<()> {
    let folder = folder("archives");
    let (plain, compressed) = (folder.join("plain.npz"), folder.join("compressed.npz"));
    fs::write(&plain, samples::NPZ).unwrap();
    fs::write(&compressed, samples::NPZ_COMPRESSED).unwrap();
    let archive = Archive::load_npz(&plain)?;
    assert_eq!(archive.names().collect::<Vec<_>>(), ["w", "n"]);
    assert_eq!(archive.tensor("w")?.to_vec::<f32>()?, [1.5, -2.0]);
    let scalar = archive.tensor("n")?;
    assert_eq!((scalar.ty(), scalar.to_vec::<i32>()?), (&TensorType::scalar(DType::I32), vec![3]));
    let archive = Archive::load_npz(&compressed)?;
    assert_eq!(archive.names().collect::<Vec<_>>(), ["w", "b"]);
    assert_eq!(archive.tensor("w")?, &StoredTensor::new(vec![0f32; 32], [4, 8])?);
    assert_eq!(archive.tensor("b")?.to_vec::<bool>()?, [true]);
    Ok(())
}

#[test]
fn the_safetensors_packages_file_is_read_and_written() -> Result<()> {
    let path = folder("package").join("x.safetensors");
    fs::write(&path, samples::SAFETENSORS).unwrap();
    let archive = Archive::load_safetensors(&path)?;
    let expected = [
        ("big", StoredTensor::new(vec![-1i64], [1])?),
        ("e", StoredTensor::new(Vec::<f32>::new(), [0, 3])?),
        ("w", StoredTensor::new(vec![1.5f32, -2.0], [2])?),
        ("n", StoredTensor::new(vec![7u32], [])?),
        ("i", StoredTensor::new(vec![-7i32], [1])?),
        ("b", StoredTensor::new(vec![bf16::ONE; 2], [2])?),
        ("half", StoredTensor::new(vec![f16::from_f32(1.5)], [1, 1])?),
        ("mask", StoredTensor::new(vec![true, false, true], [3])?),
    ];
    let expected: Vec<_> = expected.iter().map(|(name, tensor)| (*name, tensor)).collect();
    assert_eq!(archive.tensors()?, expected);
    assert_eq!(archive.metadata(), &BTreeMap::from([(String::from("format"), String::from("np"))]));
    archive.save_safetensors(&path)?;
    assert!(fs::read(&path).unwrap() == samples::SAFETENSORS, "the file is written otherwise");
    Ok(())
}

/// Random bits of each dtype, in shapes of several ranks.
fn every_dtype() -> Vec<(String, StoredTensor)> {
    let mut runner = TestRunner::deterministic();
    let mut bytes = |dtype: DType, length: usize| -> Vec<u8> {
        let byte = if dtype == DType::Bool { 0..=1 } else { 0..=u8::MAX };
        prop::collection::vec(byte, length).new_tree(&mut runner).unwrap().current()
    };
    let device = device();
    let mut tensors = Vec::new();
    for dtype in DType::ALL {
        for shape in [&[][..], &[1], &[3], &[0], &[2, 0, 5], &[5, 1, 3], &[2, 3, 1, 2, 2], &[257]] {
            let ty = TensorType::new(dtype, shape);
            let tensor = Tensor::from_bytes(&device, dtype, &bytes(dtype, ty.byte_len()), shape).unwrap();
            tensors.push((format!("{dtype} {}", ty.shape), StoredTensor::of(&tensor).unwrap()));
        }
    }
    tensors
}

#[test]
fn every_dtype_comes_back_with_its_bits() -> Result<()> {
    let folder = folder("round-trip");
    let (npy, npz, safetensors) = (folder.join("x.npy"), folder.join("x.npz"), folder.join("x.safetensors"));
    let device = device();
    let tensors = every_dtype();
    let archive = Archive::new(tensors.clone())?;
    archive.save_safetensors(&safetensors)?;
    let read = Archive::load_safetensors(&safetensors)?;
    assert_eq!(read.names().len(), tensors.len());
    for (name, tensor) in &tensors {
        assert_eq!(read.tensor(name)?.bytes(), tensor.bytes(), "{name}");
        assert_eq!(read.tensor(name)?.to_device(&device)?.to_bytes()?, tensor.bytes(), "{name}");
    }
    let of_numpy: Vec<_> = tensors.into_iter().filter(|(_, tensor)| tensor.ty().dtype != DType::BF16).collect();
    Archive::new(of_numpy.clone())?.save_npz(&npz)?;
    let read = Archive::load_npz(&npz)?;
    assert_eq!(read.tensors()?, of_numpy.iter().map(|(name, tensor)| (&**name, tensor)).collect::<Vec<_>>());
    for (name, tensor) in &of_numpy {
        tensor.to_device(&device)?.save_npy(&npy)?;
        let read = Tensor::load_npy(&device, &npy)?;
        assert_eq!((read.ty(), &read.to_bytes()?[..]), (tensor.ty(), tensor.bytes()), "{name}");
    }
    Ok(())
}

#[test]
fn the_same_tensors_give_the_same_file() -> Result<()> {
    let folder = folder("same");
    let tensors = every_dtype().into_iter().filter(|(_, tensor)| tensor.ty().dtype != DType::BF16);
    let archive = Archive::new(tensors)?.with_metadata((0..9).map(|i| (format!("key {i}"), String::new())).collect());
    let files = [folder.join("a"), folder.join("b")];
    for file in &files {
        archive.save_npz(file)?;
    }
    assert!(fs::read(&files[0]).unwrap() == fs::read(&files[1]).unwrap());
    for file in &files {
        archive.save_safetensors(file)?;
    }
    assert!(fs::read(&files[0]).unwrap() == fs::read(&files[1]).unwrap());
    Ok(())
}

#[test]
fn elements_are_not_copied_to_a_device() -> Result<()> {
    let path = folder("copies").join("x.safetensors");
    fs::write(&path, samples::SAFETENSORS).unwrap();
    let device = device();
    let archive = Archive::load_safetensors(&path)?;
    for name in ["big", "w", "b"] {
        let stored = archive.tensor(name)?;
        let tensor = stored.to_device(&device)?;
        assert!(std::ptr::eq((*tensor.to_host()?).as_ref(), stored.bytes()), "{name}");
        assert!(std::ptr::eq(StoredTensor::of(&tensor)?.bytes(), stored.bytes()), "{name}");
    }
    // They outlive the archive, and an op that could reuse its operand's memory leaves them alone.
    let before = archive.tensor("w")?.clone();
    let tensor = before.to_device(&device)?;
    drop(archive);
    assert_eq!(tensor.add(1.0)?.to_vec::<f32>()?, [2.5, -1.0]);
    assert_eq!(before.to_vec::<f32>()?, [1.5, -2.0]);
    Ok(())
}

#[test]
fn what_numpy_has_no_type_for_is_refused() -> Result<()> {
    let folder = folder("no-type");
    let (npy, npz) = (folder.join("x.npy"), folder.join("x.npz"));
    fs::write(&npy, samples::BFLOAT16).unwrap();
    let halves = Tensor::full(&device(), bf16::ONE, [2])?;
    let named = |text: &str| text.replace(&*folder.to_string_lossy(), "FOLDER");
    let error = Tensor::load_npy(&halves.device(), &npy).unwrap_err();
    assert!(error.is_file_error());
    assert_eq!(error.path(), Some(&*npy));
    expect![
        "FOLDER/x.npy: the array has elements of `<V2`, two bytes of any kind; bfloat16 is kept by .safetensors, not by NumPy"
    ]
    .assert_eq(&named(error.reason()));
    let error = halves.save_npy(&npy).unwrap_err();
    expect!["FOLDER/x.npy: NumPy's files have no element type for bf16; .safetensors has, or convert it to f32"]
        .assert_eq(&named(error.reason()));
    assert!(fs::read(&npy).unwrap() == samples::BFLOAT16, "the file that was there is whole");
    let error = Archive::of([("h", &halves)])?.save_npz(&npz).unwrap_err();
    expect![
        "FOLDER/x.npz: tensor `h`: NumPy's files have no element type for bf16; .safetensors has, or convert it to f32"
    ]
    .assert_eq(&named(error.reason()));
    assert!(!npz.exists());
    Ok(())
}

#[test]
fn names_are_found_or_named() -> Result<()> {
    let one = StoredTensor::new(vec![1f32], [])?;
    let result = Archive::new([("a", one.clone()), ("b", one.clone()), ("a", one.clone())]);
    assert!(refused(result, expect!["there are two tensors `a`"]).is_argument_error());
    let archive = Archive::new([("a", one.clone())])?;
    let result = archive.tensor("c");
    assert!(refused(result, expect!["there is no tensor `c`"]).is_argument_error());
    let result = one.to_vec::<i32>();
    refused(result, expect!["to_vec(tensor<f32>): elements are f32, not i32"]);
    let result = StoredTensor::new(vec![1f32], [2]);
    refused(result, expect!["StoredTensor::new(): 1 element of f32 does not fill shape [2]"]);
    let result = Archive::new([("__metadata__", one)])?.save_safetensors("x");
    refused(result, expect!["x: no tensor can be named `__metadata__` in a safetensors file"]);
    let odd = ["", "a/b", "..", "ü", "a\"b\\\n", "x.npy"];
    let archive = Archive::new(odd.map(|name| (name, StoredTensor::new(vec![true], []).unwrap())))?;
    let path = folder("names").join("x");
    archive.save_npz(&path)?;
    assert!(Archive::load_npz(&path)?.names().eq(odd));
    archive.save_safetensors(&path)?;
    assert!(Archive::load_safetensors(&path)?.names().eq(odd));
    Ok(())
}

#[test]
fn a_failed_value_is_not_saved() -> Result<()> {
    let folder = folder("failed");
    let device =
        Device::open(Config { threads: 1, faults: Faults::none().fail_launch(0), ..Config::default() }).unwrap();
    let x = Tensor::from_slice(&device, &[1f32, 2.0], [2])?;
    let (line, y) = (line!(), x.exp()?);
    let z = y.add(1.0)?;
    for path in ["z.npy", "z.npz"].map(|name| folder.join(name)) {
        let error = match path.extension() {
            Some(extension) if extension == "npy" => z.save_npy(&path).unwrap_err(),
            _ => Archive::of([("x", &x), ("z", &z)]).unwrap_err(),
        };
        refused_at(
            &error,
            line,
            expect![
                "exponential(tensor<2xf32>): internal error: injected failure of launch 0 (`exponential+add`), in the fused program exponential+add"
            ],
        );
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
    Ok(())
}

#[test]
fn a_file_that_cannot_be_had_is_named() {
    let folder = folder("nowhere");
    let device = device();
    let one = Tensor::full(&device, 1f32, []).unwrap();
    let path = folder.join("no/x.npy");
    let error = Tensor::load_npy(&device, &path).unwrap_err();
    assert!(error.is_file_error());
    assert_eq!(error.reason(), format!("cannot read {}: No such file or directory (os error 2)", path.display()));
    let error = one.save_npy(&path).unwrap_err();
    assert!(error.reason().starts_with(&format!("cannot write {}: No such file", path.display())), "{error}");
    let error = one.save_npy(&folder).unwrap_err();
    assert_eq!(error.reason(), format!("cannot write {}: it is there and no regular file", folder.display()));
    let place = error.origin().to_string();
    assert!(place.starts_with("tests/files/main.rs:"), "{place}");
}

#[cfg(unix)]
#[test]
fn a_written_file_is_as_its_user_makes_files() -> Result<()> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder("permissions");
    let one = Tensor::full(&device(), 1f32, [])?;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (fresh, ours) = (folder.join("fresh"), folder.join("x.npy"));
    fs::write(&fresh, "").unwrap();
    one.save_npy(&ours)?;
    assert_eq!(mode(&ours), mode(&fresh));
    fs::set_permissions(&ours, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.join("link");
    symlink("x.npy", &link).unwrap();
    one.add(1.0)?.save_npy(&link)?;
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode(&ours), 0o640);
    assert_eq!(Tensor::load_npy(&one.device(), &ours)?.to_vec::<f32>()?, [2.0]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "nothing else is left");
    Ok(())
}

/// The best token after the first prompt, of all logits.
#[test]
fn the_oracles_logits_are_read() {
    let Some(path) = testdata::find("oracles/smollm2_first_logits_0.npy") else { return };
    let expected = fs::read(path.with_file_name("smollm2_expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let logits = Tensor::load_npy(&device(), &path).unwrap();
    assert_eq!(logits.ty(), &TensorType::new(DType::F32, Shape::from([49_152])));
    let logits = logits.to_vec::<f32>().unwrap();
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
    assert_eq!(Some(best as u64), expected[0]["greedy"][0].as_u64());
}
