//! Files of weights that somebody made: a small encoder is read from a folder, and every damage to it is named.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use systole::Device;
use systole::files::{Archive, StoredTensor};
use systole_models::minilm::{Checkpoint, Config, MiniLm, Parameters, Source, TooLong};

const SMALL: Config = Config {
    hidden: 8,
    heads: 2,
    layers: 1,
    feed_forward: 12,
    vocabulary: 8,
    positions: 6,
    segments: 1,
    epsilon: 1e-6,
};

const CONFIG: &str = r#"{"hidden_act": "gelu", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "intermediate_size": 12, "vocab_size": 8, "max_position_embeddings": 6, "type_vocab_size": 1,
    "layer_norm_eps": 1e-6}"#;

/// Words between [CLS] and [SEP], with the truncation and padding that MiniLM's file has, which must not count.
const TOKENIZER: &str = r###"{"version": "1.0",
    "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 5}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "[PAD]"},
    "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
            "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
    "decoder": null,
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "to": 4, "be": 5, "##long": 6}}}"###;

/// A folder with the small encoder's files, its tensors changed by `change`.
fn folder(name: &str, change: impl Fn(&str, Vec<usize>) -> Option<Vec<usize>>) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("weights").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), CONFIG).unwrap();
    fs::write(folder.join("tokenizer.json"), TOKENIZER).unwrap();
    let zeros = StoredTensor::new(vec![0f32; 8], [8]).unwrap();
    let mut tensors = vec![(String::from("pooler.dense.bias"), zeros)];
    let mut parameters = Parameters::random(&SMALL, 1).into_values();
    let made = Parameters::try_from_fn(&SMALL, |name, shape| {
        let mut elements = parameters.next().unwrap().to_vec::<f32>().unwrap();
        if let Some(shape) = change(name, shape.to_vec()) {
            // A changed shape leaves elements over; what counts is that the file agrees with itself.
            elements.truncate(shape.iter().product());
            tensors.push((name.to_owned(), StoredTensor::new(elements, shape).unwrap()));
        }
        Ok::<_, ()>(())
    });
    assert!(made.is_ok());
    Archive::new(tensors).unwrap().save_safetensors(folder.join("model.safetensors")).unwrap();
    folder
}

fn whole(name: &str) -> PathBuf {
    folder(name, |_, shape| Some(shape))
}

fn check(folder: &Path, expected: &Expect) {
    let error = Checkpoint::load(&Source::Folder(folder.to_path_buf()), &mut |_| {}).unwrap_err();
    assert!(error.is_weights_error(), "{error}");
    expected.assert_eq(&error.to_string().replace(&*folder.to_string_lossy(), "FOLDER"));
}

#[test]
fn an_encoder_is_read_from_a_folder() {
    let checkpoint = Checkpoint::read(&whole("whole")).unwrap();
    assert_eq!(checkpoint.config(), &SMALL);
    assert!(checkpoint.parameters().iter().eq(Parameters::random(&SMALL, 1).iter()));
    let tokens = checkpoint.tokenizer().tokens(&["to belong", "or to be", ""], &SMALL, TooLong::Refuse).unwrap();
    assert_eq!(tokens.rows, [vec![2, 4, 5, 6, 3], vec![2, 1, 4, 5, 3], vec![2, 3]]);
    let tokens = checkpoint.tokenizer().tokens(&["to to to to be"], &SMALL, TooLong::Cut).unwrap();
    assert_eq!((&tokens.rows[..], &tokens.lengths[..]), (&[vec![2, 4, 4, 4, 4, 3]][..], &[7][..]));

    let device = Device::simulator().unwrap();
    let model = MiniLm::new(&device, checkpoint.config(), checkpoint.parameters()).unwrap();
    let batch = checkpoint.tokenizer().batch(&["to be", "belong"], &SMALL, TooLong::Refuse).unwrap();
    assert_eq!(model.encode(&batch).unwrap().shape()[..], [2, 8]);
}

#[test]
fn a_missing_file_is_named() {
    let folder = whole("missing");
    fs::remove_file(folder.join("tokenizer.json")).unwrap();
    check(&folder, &expect!["cannot read FOLDER/tokenizer.json: No such file or directory (os error 2)"]);
}

#[test]
fn truncated_weights_are_refused() {
    let folder = whole("truncated");
    let file = folder.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let cases = [
        (bytes.len() - 1, expect!["its tensors take 2704 bytes, and it has 2703 for them"]),
        (100, expect!["invalid header length"]),
        (0, expect!["header too small"]),
    ];
    for (length, reason) in cases {
        fs::write(&file, &bytes[..length]).unwrap();
        let text = Checkpoint::read(&folder).unwrap_err().to_string();
        let before = format!("{}: this is no whole safetensors file (", file.display());
        reason.assert_eq(text.strip_prefix(&before).unwrap().trim_end_matches(')'));
    }
}

#[test]
fn weights_of_another_model_are_refused() {
    let lacks = folder("lacks", |name, shape| (name != "encoder.layer.0.output.dense.bias").then_some(shape));
    check(&lacks, &expect!["FOLDER/model.safetensors: there is no tensor `encoder.layer.0.output.dense.bias`"]);
    let smaller = folder("smaller", |name, shape| match name {
        "embeddings.word_embeddings.weight" => Some(vec![7, 8]),
        _ => Some(shape),
    });
    check(
        &smaller,
        &expect![
            "FOLDER/model.safetensors: tensor `embeddings.word_embeddings.weight` is tensor<7x8xf32>, not tensor<8x8xf32>"
        ],
    );
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let folder = whole("apart");
    fs::write(folder.join("config.json"), CONFIG.replace("\"vocab_size\": 8", "\"vocab_size\": 6")).unwrap();
    check(&folder, &expect!["FOLDER/tokenizer.json: has 7 tokens, and config.json a vocabulary of 6"]);
    fs::write(folder.join("config.json"), CONFIG.replace("\"num_attention_heads\": 2", "\"num_attention_heads\": 3"))
        .unwrap();
    check(&folder, &expect!["FOLDER/config.json: hidden size 8 is no multiple of 3 heads"]);
    fs::write(folder.join("config.json"), CONFIG).unwrap();
    fs::write(folder.join("tokenizer.json"), "{}").unwrap();
    check(
        &folder,
        &expect!["FOLDER/tokenizer.json: this is no definition of a tokenizer (Model missing. at line 1 column 2)"],
    );
}
