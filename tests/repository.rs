//! The rules of the house, as tests: crate edges, where `unsafe` may stand, file length and names, generated docs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use systole::Opcode;
use systole::fusion::ir::{Accuracy, Dtypes, Nan};

/// Which crates of the workspace each one may depend on. The direction is the architecture: fusion and hal never meet,
/// models see only the root's public API, what is timed sees the models too, and the command line sees all three.
const EDGES: &[(&str, &[&str])] = &[
    ("kernels", &[]),
    ("fusion", &["systole-kernels"]),
    ("hal", &["systole-kernels"]),
    (".", &["systole-fusion", "systole-hal", "systole-kernels"]),
    ("models", &["systole"]),
    ("benches", &["systole", "systole-models"]),
    ("cli", &["systole", "systole-benches", "systole-models"]),
    ("fuzz", &["systole", "systole-fusion", "systole-kernels"]),
    ("tests/embed", &["systole"]),
];

/// Files that may contain `unsafe`; each block there carries its SAFETY reason (a workspace lint).
const UNSAFE_ROOMS: &[&str] = &["kernels/src/simd/", "kernels/src/memory.rs", "tests/embed/tests/fork.rs"];

/// Longest file, without a reason in [`LONG_FILES`].
const LONGEST: usize = 800;

/// Files above [`LONGEST`], each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Names that say nothing about what a file is for.
const BANNED_NAMES: &[&str] = &["utils", "util", "common", "base", "helpers", "helper", "manager", "misc"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files() -> Vec<(String, String)> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a source folder is readable") {
            let path = entry.expect("an entry of a source folder is readable").path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    for krate in ["", "kernels", "fusion", "hal", "models", "cli", "fuzz"] {
        for folder in ["src", "tests", "examples", "benches"] {
            let folder = root().join(krate).join(folder);
            if folder.is_dir() {
                visit(&folder, &mut paths);
            }
        }
    }
    assert!(paths.len() > 50, "the workspace's sources were not found");
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).expect("found below the root").to_string_lossy().replace('\\', "/");
            (name, std::fs::read_to_string(&path).expect("a source file is UTF-8"))
        })
        .collect()
}

#[test]
fn crates_depend_only_downwards() {
    for &(krate, allowed) in EDGES {
        let manifest = std::fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("a crate has a manifest");
        let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
        let dependencies = manifest["dependencies"].as_table().expect("dependencies are a table");
        let found: BTreeSet<&str> =
            dependencies.keys().map(String::as_str).filter(|name| name.starts_with("systole")).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert!(found.is_subset(&allowed), "{krate}/Cargo.toml depends on {found:?}, and may on {allowed:?}");
    }
}

#[test]
fn every_member_has_its_edges_declared() {
    let manifest: toml::Table =
        std::fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest").parse().expect("TOML");
    let members = manifest["workspace"]["default-members"].as_array().expect("default members");
    let members: BTreeSet<&str> = members.iter().map(|member| member.as_str().expect("a path")).collect();
    let declared: BTreeSet<&str> = EDGES.iter().map(|(krate, _)| *krate).collect();
    assert_eq!(members, declared);
}

#[test]
fn every_dependency_is_named_with_its_reason() {
    let contributing = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let manifest: toml::Table =
        std::fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest").parse().expect("TOML");
    for name in manifest["workspace"]["dependencies"].as_table().expect("a table").keys() {
        if !name.starts_with("systole") {
            assert!(contributing.contains(&format!("| `{name}` |")), "CONTRIBUTING.md gives no reason for {name}");
        }
    }
}

#[test]
fn unsafe_stays_in_its_rooms() {
    for (name, text) in rust_files() {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let uses = code.filter(|line| line.contains("unsafe ") && !line.contains('"')).count();
        let allowed = UNSAFE_ROOMS.iter().any(|room| name.starts_with(room));
        assert!(uses == 0 || allowed, "{name} contains `unsafe`; it may stand in {UNSAFE_ROOMS:?}");
    }
}

#[test]
fn files_are_nouns_of_the_domain_and_not_too_long() {
    for (name, text) in rust_files() {
        let lines = text.lines().count();
        let excused = LONG_FILES.iter().any(|(file, _)| *file == name);
        assert!(lines <= LONGEST || excused, "{name} has {lines} lines, more than {LONGEST}");
        let stem = Path::new(&name).file_stem().expect("a file has a name").to_string_lossy().into_owned();
        assert!(!BANNED_NAMES.contains(&stem.as_str()), "{name}: the name says nothing about what it is for");
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for (name, text) in rust_files() {
        assert!(text.starts_with("//!"), "{name} begins without module documentation");
    }
}

/// Every file and folder that a page names in backticks or links to is there.
#[test]
fn pages_name_what_exists() {
    let mut pages = vec![String::from("README.md"), String::from("ARCHITECTURE.md"), String::from("CONTRIBUTING.md")];
    for entry in std::fs::read_dir(root().join("docs")).expect("docs/") {
        let name = entry.expect("an entry of docs/").file_name().to_string_lossy().into_owned();
        pages.push(format!("docs/{name}"));
    }
    let mut checked = 0;
    for page in pages {
        let text = std::fs::read_to_string(root().join(&page)).expect("a page");
        let quoted = text.split('`').skip(1).step_by(2).map(|name| root().join(name));
        let folder = root().join(&page).parent().expect("a page lies in a folder").to_path_buf();
        let linked = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| folder.join(to));
        let is_path = |path: &PathBuf| {
            let name = path.to_string_lossy();
            (name.ends_with(".rs") || name.ends_with(".md")) && !name.contains([' ', '*', '('])
        };
        for path in quoted.chain(linked).filter(is_path) {
            assert!(path.exists(), "{page} names {}, which is not there", path.display());
            checked += 1;
        }
    }
    assert!(checked > 20, "the pages' paths were not found");
}

#[test]
fn nothing_is_left_for_later() {
    for (name, text) in rust_files() {
        if name == "tests/repository.rs" {
            continue;
        }
        for word in ["TODO", "FIXME", "XXX", "#[ignore"] {
            assert!(!text.contains(word), "{name} contains {word}");
        }
    }
}

#[test]
fn libraries_read_no_environment() {
    for (name, text) in rust_files() {
        let library = ["src/", "kernels/src/", "fusion/src/", "hal/src/"].iter().any(|room| name.starts_with(room));
        if library {
            assert!(!text.contains("env::var"), "{name} reads the environment");
            assert!(!text.contains("process::exit"), "{name} exits the process");
        }
    }
}

/// `UPDATE_EXPECT=1 cargo test --test repository` writes the page anew.
#[test]
fn the_page_of_ops_follows_the_table() {
    let mut page = String::from(
        "# Operations\n\n\
         Generated from the op table (`fusion/src/ir/ops.rs`); semantics are StableHLO's, made exact by \
         [numerics.md](numerics.md).\n\n\
         | op | method | class | dtypes | NaN | float accuracy | |\n|---|---|---|---|---|---|---|\n",
    );
    for opcode in Opcode::ALL {
        let row = opcode.info();
        let dtypes = match row.dtypes {
            Dtypes::Any => "all",
            Dtypes::Number => "integer, float",
            Dtypes::Signed => "signed integer, float",
            Dtypes::Float => "float",
            Dtypes::Bits => "bool, integer",
        };
        let nan = match row.nan {
            Nan::Canonical => "canonical",
            Nan::Preserved => "preserved",
        };
        let accuracy = match row.accuracy {
            Accuracy::Exact => "exact",
            Accuracy::CorrectlyRounded => "correctly rounded",
            Accuracy::ByOrder => "rounded stepwise, in fixed order",
        };
        writeln!(
            page,
            "| `{}` | `{}` | {:?} | {dtypes} | {nan} | {accuracy} | {} |",
            row.name, row.method, row.class, row.doc
        )
        .expect("writing to a string succeeds");
    }
    expect_file!["../docs/ops.md"].assert_eq(&page);
}
