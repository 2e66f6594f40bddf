//! Files that are damaged or were never meant well: an error names what is wrong, and no size is believed.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestRunner};
use systole::files::Archive;
use systole::{Device, Result, Tensor};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::{device, folder, samples};

#[derive(Clone, Copy, Debug)]
enum Format {
    Npy,
    Npz,
    Safetensors,
}

use Format::{Npy, Npz, Safetensors};

/// Every whole file.
const WHOLE: [(Format, &[u8]); 11] = [
    (Npy, samples::BOOL),
    (Npy, samples::F32),
    (Npy, samples::EMPTY),
    (Npy, samples::BIG_ENDIAN),
    (Npy, samples::FORTRAN_BIG_ENDIAN),
    (Npy, samples::VERSION_2),
    (Npy, samples::BFLOAT16),
    (Npy, samples::FIELDS),
    (Npz, samples::NPZ),
    (Npz, samples::NPZ_COMPRESSED),
    (Safetensors, samples::SAFETENSORS),
];

/// A place for files that are read at once.
struct Desk {
    path: PathBuf,
    device: Device,
}

impl Desk {
    fn new(name: &str) -> Self {
        Desk { path: folder(name).join("x"), device: device() }
    }

    /// Reads all tensors of a file and puts them on a device.
    fn read(&self, format: Format, file: &[u8]) -> Result<()> {
        // A new file each time: some file systems wait for the disk where one is cut and written again.
        let _ = fs::remove_file(&self.path);
        fs::write(&self.path, file).unwrap();
        let archive = match format {
            Npy => return Tensor::load_npy(&self.device, &self.path).map(drop),
            Npz => Archive::load_npz(&self.path)?,
            Safetensors => Archive::load_safetensors(&self.path)?,
        };
        for (_, tensor) in archive.tensors()? {
            tensor.to_device(&self.device)?;
        }
        Ok(())
    }

    /// What is wrong with a file.
    #[track_caller]
    fn wrong(&self, format: Format, file: &[u8]) -> String {
        let error = self.read(format, file).expect_err("this file is damaged");
        assert!(error.is_file_error(), "{error:?}");
        assert_eq!(error.path(), Some(&*self.path));
        assert!(error.origin().to_string().starts_with("tests/files/damage.rs:"), "{error}");
        let before = format!("{}: ", self.path.display());
        error.reason().strip_prefix(&before).expect("the reason begins with the file").to_owned()
    }

    #[track_caller]
    fn check(&self, format: Format, file: &[u8], expected: &Expect) {
        expected.assert_eq(&self.wrong(format, file));
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let desk = Desk::new("cut");
    for (format, file) in WHOLE {
        for length in 0..file.len() {
            desk.wrong(format, &file[..length]);
        }
    }
}

#[test]
fn a_file_with_more_bytes_is_refused() {
    let desk = Desk::new("longer");
    let longer = |file: &[u8]| [file, &[0]].concat();
    desk.check(Npy, &longer(samples::F32), &expect!["tensor<1x3xf32> takes 12 bytes, and the file has 13 for it"]);
    desk.check(
        Safetensors,
        &longer(samples::SAFETENSORS),
        &expect!["this is no whole safetensors file (its tensors take 33 bytes, and it has 34 for them)"],
    );
}

/// Mutations of every sample: bytes changed, taken out, put in. Whatever they do, there is a result or an error.
#[test]
fn changed_bytes_do_no_harm() {
    let desk = Desk::new("changed");
    let change = (any::<prop::sample::Index>(), 0..4u8, any::<u8>());
    let changes = prop::collection::vec(change, 1..5);
    // `deterministic` has one seed for all times.
    let mut runner = TestRunner::new_with_rng(
        Runs { cases: 5_000, failure_persistence: None, ..Runs::default() },
        TestRunner::deterministic().rng().clone(),
    );
    let strategy = (prop::sample::select(&WHOLE[..]), changes);
    runner
        .run(&strategy, |((format, file), changes)| {
            let mut file = file.to_vec();
            for (at, how, byte) in changes {
                let at = at.index(file.len());
                match how {
                    0 => file[at] = byte,
                    // What lies in texts and sizes.
                    1 => file[at] = [b'0', b'9', b'-', b'(', b'{', b'"', 0, 0xff][usize::from(byte % 8)],
                    2 => drop(file.remove(at)),
                    _ => file.insert(at, byte),
                }
            }
            if let Err(error) = desk.read(format, &file) {
                prop_assert!(error.is_file_error() || error.is_out_of_memory(), "{error:?}");
            }
            Ok(())
        })
        .unwrap();
}

/// A `.npy` file with this header.
fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), elements].concat()
}

#[test]
fn headers_of_arrays_are_believed_in_nothing() {
    let desk = Desk::new("headers-npy");
    let check = |file: &[u8], expected: Expect| desk.check(Npy, file, &expected);
    check(b"", expect![[r#"this is no .npy file: it does not begin with \x93NUMPY"#]]);
    check(b"PK\x03\x04", expect![[r#"this is no .npy file: it does not begin with \x93NUMPY"#]]);
    check(b"\x93NUMPY\x04\x00\x00\x00\x00\x00", expect!["version 4.0 of the format is unknown"]);
    check(
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
        expect!["a header of 4294967295 bytes is longer than any of an array"],
    );
    check(&npy("\u{fffd}", b"")[..11], expect!["the file ends within its header"]);
    let header = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
    let shaped = |shape: &str, expected: Expect| check(&npy(&header(shape), &[0; 8]), expected);
    assert!(desk.read(Npy, &npy(&header("(2L,)"), &[0; 8])).is_ok(), "as Python 2 wrote it");
    assert!(desk.read(Npy, &npy(&header("( 1,2 , )\n"), &[0; 8])).is_ok());
    shaped("(3,)", expect!["tensor<3xf32> takes 12 bytes, and the file has 8 for it"]);
    shaped("(-2,)", expect!["the header does not have an extent at its byte 51"]);
    shaped("(,)", expect!["the header does not have an extent at its byte 51"]);
    shaped("2", expect!["the header does not have `(` at its byte 50"]);
    shaped("(2", expect!["the header does not have `,` or `)` at its byte 52"]);
    shaped("(2,) 'x'", expect!["the header does not have `,` or `}` at its byte 55"]);
    shaped("(99999999999999999999,)", expect!["the header does not have an extent at its byte 51"]);
    shaped(
        "(4611686018427387904, 4)",
        expect!["tensor<4611686018427387904x4xf32> takes more bytes than can be addressed, and the file has 8 for it"],
    );
    shaped(
        "(4294967296, 4294967296)",
        expect!["tensor<4294967296x4294967296xf32> takes more bytes than can be addressed, and the file has 8 for it"],
    );
    shaped(&"(".repeat(30_000), expect!["the header does not have an extent at its byte 51"]);
    let nested = format!("{{'descr': {}", "[(".repeat(30_000));
    check(&npy(&nested, b""), expect!["the header does not have an extent at its byte 60010"]);
    let deep = header(&format!("({})", "1, ".repeat(70)));
    check(&npy(&deep, &[0; 4]), expect!["rank 70 exceeds 64"]);
    let empty = npy(&header("(0, 18446744073709551615, 18446744073709551615)"), b"");
    check(&empty, expect!["tensor<0x18446744073709551615x18446744073709551615xf32> is too large to address"]);
    let dictionary = |text: &str, expected: Expect| check(&npy(text, &[0; 8]), expected);
    dictionary("", expect!["the header does not have `{` at its byte 0"]);
    dictionary("{}", expect!["the header lacks one of the keys `descr`, `fortran_order` and `shape`"]);
    dictionary(
        "{'descr': '<f4', 'shape': (2,)}",
        expect!["the header lacks one of the keys `descr`, `fortran_order` and `shape`"],
    );
    dictionary("{'descr': '<f4', 'descr': '<f4'}", expect!["the header has two keys `descr`"]);
    dictionary("{'descr': '<f4', 'cover': 3}", expect!["the header has an unknown key `cover`"]);
    dictionary("{'fortran_order': 0}", expect!["the header does not have `True` or `False` at its byte 18"]);
    dictionary("{'descr': '<f4}", expect!["the header does not have the end of a string at its byte 11"]);
    dictionary(&(header("(2,)") + "}"), expect!["the header does not have its end at its byte 55"]);
}

#[test]
fn elements_that_are_none_of_ours_are_named() {
    let desk = Desk::new("elements-npy");
    let of = |descr: &str, expected: Expect| {
        let file = npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,)}}"), &[2; 8]);
        desk.check(Npy, &file, &expected);
    };
    of("<f8", expect!["the array has elements of `<f8`, which Systole has no dtype for"]);
    of("|u1", expect!["the array has elements of `|u1`, which Systole has no dtype for"]);
    of("|f4", expect!["the array has elements of `|f4`, which Systole has no dtype for"]);
    of("|O", expect!["the array has elements of `|O`, which Systole has no dtype for"]);
    of("", expect!["the array has elements of ``, which Systole has no dtype for"]);
    of("é", expect!["the array has elements of `é`, which Systole has no dtype for"]);
    desk.check(Npy, samples::FIELDS, &expect!["the array has elements of several fields"]);
    let two = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", &[2]);
    desk.check(Npy, &two, &expect!["byte 0 of a bool tensor is 2, not 0 or 1"]);
}

/// A zip archive of these members.
fn zip(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Replaces each `from` by `to`.
fn patched(file: &[u8], from: &[u8], to: &[u8], times: usize) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut file = file.to_vec();
    let mut found = 0;
    for at in 0..=file.len() - from.len() {
        if file[at..].starts_with(from) {
            file[at..][..from.len()].copy_from_slice(to);
            found += 1;
        }
    }
    assert_eq!(found, times);
    file
}

#[test]
fn archives_are_believed_in_nothing() {
    let desk = Desk::new("archives-npz");
    let check = |file: &[u8], expected: Expect| desk.check(Npz, file, &expected);
    check(b"", expect!["this is no whole zip archive (invalid Zip archive: Could not find EOCD)"]);
    check(samples::BOOL, expect!["this is no whole zip archive (invalid Zip archive: Could not find EOCD)"]);
    let stored = |members: &[(&str, &[u8])]| zip(members, CompressionMethod::Stored);
    let two = stored(&[("a.npy", samples::F32), ("b.npy", samples::I32)]);
    assert!(desk.read(Npz, &two).is_ok());
    check(&patched(&two, b"b.npy", b"a.npy", 2), expect!["two members have the same name"]);
    check(&stored(&[("a.npy", &samples::F32[..100])]), expect!["tensor `a`: the file ends within its header"]);
    check(
        &stored(&[("a.npy", &[samples::F32, &[0]].concat())]),
        expect!["tensor `a`: the member has 141 bytes, and its header asks for 140"],
    );
    check(
        &stored(&[("a.npy", b"nothing")]),
        expect![[r#"tensor `a`: this is no .npy file: it does not begin with \x93NUMPY"#]],
    );
    // A changed element, against the checksum.
    check(&patched(&two, b"\x01\x00\x80\x7f", b"\x02\x00\x80\x7f", 1), expect!["tensor `a`: Invalid checksum"]);
    // The second member's local header said to be the first's.
    let second = u32::try_from(two.windows(4).rposition(|bytes| bytes == b"PK\x03\x04").unwrap()).unwrap();
    check(&patched(&two, &second.to_le_bytes(), &[0; 4], 1), expect!["members share bytes of the file"]);
    // Elements that are not there, however many they are said to be.
    let bomb = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", b"");
    check(
        &zip(&[("a.npy", &bomb)], CompressionMethod::Deflated),
        expect!["tensor `a`: the member has 77 bytes, and its header asks for 4000000000077"],
    );
    let small = stored(&[("a.npy", samples::F32)]);
    let length = u32::try_from(samples::F32.len()).unwrap().to_le_bytes();
    check(&patched(&small, &length, &0xffff_fff0u32.to_le_bytes(), 4), expect!["members share bytes of the file"]);
    let deflated = zip(&[("a.npy", samples::EMPTY)], CompressionMethod::Deflated);
    let length = u32::try_from(samples::EMPTY.len()).unwrap().to_le_bytes();
    check(
        &patched(&deflated, &length, &0xffff_fff0u32.to_le_bytes(), 2),
        expect!["tensor `a`: the member ends 65419 bytes early"],
    );
    // More unpacks than is declared, and than the array needs.
    let zeros = zip(&[("a.npy", &[samples::EMPTY, &[0; 1 << 20]].concat())], CompressionMethod::Deflated);
    let length = u32::try_from(samples::EMPTY.len() + (1 << 20)).unwrap().to_le_bytes();
    check(
        &patched(&zeros, &length, &u32::try_from(samples::EMPTY.len()).unwrap().to_le_bytes(), 2),
        expect!["tensor `a`: File is larger than its declared uncompressed size"],
    );
}

#[test]
fn what_is_no_array_troubles_only_who_asks_for_it() -> Result<()> {
    let path = folder("foreign").join("x.npz");
    let members: [(&str, &[u8]); 4] =
        [("a.npy", samples::F32), ("readme.txt", b"hello"), ("b.npy", samples::FIELDS), ("c.npy", samples::BFLOAT16)];
    fs::write(&path, zip(&members, CompressionMethod::Stored)).unwrap();
    let archive = Archive::load_npz(&path)?;
    assert!(archive.names().eq(["a", "readme.txt", "b", "c"]));
    assert_eq!(archive.tensor("a")?.ty().to_string(), "tensor<1x3xf32>");
    let reason = |name| {
        let error = archive.tensor(name).unwrap_err();
        assert!(error.is_file_error());
        error.reason().replace(&*path.to_string_lossy(), "x.npz")
    };
    expect!["x.npz: tensor `readme.txt` is no array: its member's name does not end in .npy"]
        .assert_eq(&reason("readme.txt"));
    expect!["x.npz: tensor `b` has elements of several fields"].assert_eq(&reason("b"));
    expect![
        "x.npz: tensor `c` has elements of `<V2`, two bytes of any kind; bfloat16 is kept by .safetensors, not by NumPy"
    ]
    .assert_eq(&reason("c"));
    expect!["x.npz: there is no tensor `d`"].assert_eq(&reason("d"));
    assert!(archive.save_npz(&path).unwrap_err().reason().contains("tensor `readme.txt` is no array"));
    Ok(())
}

/// A `.safetensors` file with this header.
fn safetensors(header: &str, elements: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

#[test]
fn headers_of_safetensors_are_believed_in_nothing() {
    let desk = Desk::new("headers-safetensors");
    let check = |file: &[u8], expected: Expect| desk.check(Safetensors, file, &expected);
    check(b"", expect!["this is no whole safetensors file (header too small)"]);
    check(&u64::MAX.to_le_bytes(), expect!["this is no whole safetensors file (header too large)"]);
    check(&90_000_000u64.to_le_bytes(), expect!["this is no whole safetensors file (invalid header length)"]);
    check(
        &safetensors(&"[".repeat(100_000), b""),
        expect![
            "this is no whole safetensors file (invalid JSON in header: invalid type: sequence, expected struct HashMetadata at line 1 column 0)"
        ],
    );
    check(
        &safetensors("[]", b""),
        expect![
            "this is no whole safetensors file (invalid JSON in header: invalid type: sequence, expected struct HashMetadata at line 1 column 0)"
        ],
    );
    check(
        &safetensors("{}", &[0; 4]),
        expect!["this is no whole safetensors file (its tensors take 0 bytes, and it has 4 for them)"],
    );
    let entry = |name: &str, dtype: &str, shape: &str, start: usize, end: usize| {
        format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}")
    };
    let of = |entries: &[String], elements: usize, expected: Expect| {
        check(&safetensors(&format!("{{{}}}", entries.join(",")), &vec![2; elements]), expected);
    };
    let a = || entry("a", "F32", "[2]", 0, 8);
    of(
        &[a(), entry("b", "F32", "[2]", 4, 12)],
        12,
        expect!["this is no whole safetensors file (invalid offset for tensor `b`)"],
    );
    // Which of the two is named is the crate's affair.
    let shared = [entry("a", "F32", "[2]", 0, 8), entry("b", "F32", "[2]", 0, 8)].join(",");
    let text = desk.wrong(Safetensors, &safetensors(&format!("{{{shared}}}"), &[0; 8]));
    assert!(text.contains("invalid offset for tensor `"), "{text}");
    of(
        &[a(), entry("b", "F32", "[2]", 12, 20)],
        20,
        expect!["this is no whole safetensors file (invalid offset for tensor `b`)"],
    );
    of(
        &[a(), entry("b", "F32", "[2]", 8, 16)],
        12,
        expect!["this is no whole safetensors file (its tensors take 16 bytes, and it has 12 for them)"],
    );
    of(
        &[entry("a", "F32", "[2]", 8, 0)],
        8,
        expect!["this is no whole safetensors file (invalid offset for tensor `a`)"],
    );
    of(&[entry("a", "F32", "[3]", 0, 8)], 8, expect!["tensor `a`: F32 [3] takes 12 bytes, and has 8 of the file"]);
    of(
        &[entry("a", "F32", "[4611686018427387904, 4]", 0, 0)],
        0,
        expect!["tensor `a`: F32 [4611686018427387904, 4] is too large to address, and has 0 of the file"],
    );
    of(
        &[entry("a", "F32", "[-1]", 0, 8)],
        8,
        expect![
            "this is no whole safetensors file (invalid JSON in header: invalid value: integer `-1`, expected usize at line 1 column 55)"
        ],
    );
    of(
        &[entry("a", "F99", "[2]", 0, 8)],
        8,
        expect![
            "this is no whole safetensors file (invalid JSON in header: unknown variant `F99`, expected one of `BOOL`, `F4`, `F6_E2M3`, `F6_E3M2`, `U8`, `I8`, `F8_E5M2`, `F8_E4M3`, `F8_E8M0`, `F8_E4M3FNUZ`, `F8_E5M2FNUZ`, `I16`, `U16`, `F16`, `BF16`, `I32`, `U32`, `F32`, `C64`, `F64`, `I64`, `U64` at line 1 column 54)"
        ],
    );
    of(&[entry("a", "BOOL", "[2]", 0, 2)], 2, expect!["tensor `a`: byte 0 of a bool tensor is 2, not 0 or 1"]);
    of(
        &[a(), entry("a", "I32", "[2, 1]", 0, 8)],
        8,
        expect!["this is no whole safetensors file (there are two tensors `a` at line 1 column 57)"],
    );
    of(&[entry("a", "F32", &format!("[{}1]", "1,".repeat(80)), 0, 4)], 4, expect!["tensor `a`: rank 81 exceeds 64"]);
    of(
        &[a(), entry("b", "F64", "[1]", 8, 16)],
        16,
        expect!["tensor `b` has elements of F64, which Systole has no dtype for"],
    );
}

#[test]
fn a_foreign_element_type_troubles_only_who_asks_for_it() -> Result<()> {
    let path = Path::new(&folder("foreign-type")).join("x.safetensors");
    let header = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
        "b":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]}}"#;
    fs::write(&path, safetensors(header, &[0; 6])).unwrap();
    let archive = Archive::load_safetensors(&path)?;
    // Not aligned, so it is copied.
    assert_eq!(archive.tensor("a")?.to_device(&device())?.to_vec::<f32>()?, [0.0]);
    let error = archive.tensor("b").unwrap_err();
    expect!["x: tensor `b` has elements of F8_E4M3, which Systole has no dtype for"]
        .assert_eq(&error.reason().replace(&*path.to_string_lossy(), "x"));
    assert!(error.is_file_error());
    Ok(())
}
