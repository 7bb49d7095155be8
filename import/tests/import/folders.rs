//! Folders of Hugging Face and lone `.safetensors` files.

use import::{Checkpoint, Format, MAX_FILE};
use tempfile::TempDir;

use super::write::{index, safetensors, save, some_bytes};
use super::{refused, says};

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    files.iter().for_each(|(name, bytes)| save(&folder.path().join(name), bytes));
    folder
}

/// A file with one tensor of one byte.
fn one(name: &str, value: u8) -> Vec<u8> {
    safetensors(&[(name, "U8", &[1], &[value])])
}

const INDEX: &str = "model.safetensors.index.json";
const CONFIG: &[u8] = br#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "eps": -Infinity}"#;

#[test]
fn a_folder_gives_tensors_configs_and_classes() {
    let weights = safetensors(&[
        ("a.weight", "F32", &[2, 3], &some_bytes(24)),
        ("a.bias", "BF16", &[3], &some_bytes(6)),
        ("a.scale", "F8_E4M3", &[], &[7]),
        ("a.packed", "F4", &[3, 2], &[1, 2, 3]),
    ]);
    let files: [(&str, &[u8]); 5] = [
        ("._model.safetensors", b"what another system left"),
        ("config.json", CONFIG),
        ("generation_config.json", br#"{"temperature": 0.6}"#),
        ("model.safetensors", &weights),
        ("tokenizer.json", b"\xff\x00"),
    ];
    let folder = folder(&files);
    let c = Checkpoint::open(folder.path()).expect("it is right");
    assert_eq!(c.format(), Format::Safetensors);
    assert_eq!(c.classes(), ["LlamaForCausalLM", "llama"]);
    assert_eq!(c.config()["eps"], "-Infinity");
    assert_eq!(c.generation_config().expect("it is there")["temperature"], 0.6);
    let listed: Vec<_> = c.tensors().values().map(|t| (t.name(), t.kind(), t.shape())).collect();
    let want: [(&str, &str, &[i64]); 4] = [
        ("a.weight", "f32", &[2, 3]),
        ("a.bias", "bf16", &[3]),
        ("a.scale", "f8_e4m3", &[]),
        ("a.packed", "f4", &[3, 2]),
    ];
    assert_eq!(listed, want);
    let t = c.tensor("a.bias").expect("it is there");
    assert_eq!(t.bytes().expect("it is known"), some_bytes(6));
    assert!(t.file().ends_with("model.safetensors"));
    assert_eq!(c.file_bytes("tokenizer.json").expect("it is there"), Some(b"\xff\x00".to_vec()));
    says(
        &c.file_text("tokenizer.json").expect_err("it is no text").to_string(),
        &["tokenizer.json", "no UTF-8"],
    );
    let e = c.tensor("a.wieght").expect_err("it is not there").to_string();
    says(&e, &["there is no tensor `a.wieght`; did you mean `a.weight`"]);
}

#[test]
fn the_part_of_a_model_of_pictures_that_writes_has_the_names_of_one_that_only_writes() {
    let config = br#"{"architectures": ["Seer"], "text_config": {}}"#;
    let names = [
        ("language_model.model.norm", "model.norm"),
        ("model.language_model.layers.0.q", "model.layers.0.q"),
        ("language_model.lm_head", "lm_head"),
        ("vision_tower.norm", "vision_tower.norm"),
    ];
    let tensors: Vec<_> = names.iter().map(|(n, _)| (*n, "U8", &[1_i64][..], &[1_u8][..])).collect();
    let weights = safetensors(&tensors);
    let folder = folder(&[("config.json", config), ("model.safetensors", &weights)]);
    let c = Checkpoint::open(folder.path()).expect("it is right");
    let mut want = names.map(|n| n.1);
    let mut own: Vec<&str> = c.tensors().values().map(import::Tensor::name).collect();
    own.sort_unstable();
    want.sort_unstable();
    assert_eq!(own, want);
    // Of a name that is there twice neither is lost.
    let both = [("language_model.a", "U8", &[1_i64][..], &[1_u8][..]), ("a", "U8", &[1], &[2])];
    let weights = safetensors(&both);
    let folder = self::folder(&[("config.json", config), ("model.safetensors", &weights)]);
    let c = Checkpoint::open(folder.path()).expect("it is right");
    assert_eq!(c.tensors().len(), 2);
    let both = [
        ("language_model.model.a", "U8", &[1_i64][..], &[1_u8][..]),
        ("model.language_model.a", "U8", &[1], &[2]),
    ];
    let folder = self::folder(&[("config.json", config), ("model.safetensors", &safetensors(&both))]);
    let c = Checkpoint::open(folder.path()).expect("it is right");
    assert_eq!(c.tensors().keys().collect::<Vec<_>>(), ["language_model.model.a", "model.language_model.a"]);
}

#[test]
fn what_sentence_transformers_says_is_part_of_the_config() {
    let weights = one("w", 1);
    let modules = br#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Normalize", "type": "sentence_transformers.base.modules.normalize.Normalize"}]"#;
    let with = |pooling: &[u8], sentence: &[u8]| {
        let files: [(&str, &[u8]); 6] = [
            ("config.json", CONFIG),
            (
                "config_sentence_transformers.json",
                br#"{"activation_fn": "torch.nn.modules.activation.Sigmoid"}"#,
            ),
            ("model.safetensors", &weights),
            ("modules.json", modules),
            ("sentence_bert_config.json", sentence),
            ("tokenizer_config.json", br#"{"model_max_length": 384}"#),
        ];
        let folder = folder(&files);
        std::fs::create_dir(folder.path().join("1_Pooling")).expect("it is made");
        save(&folder.path().join("1_Pooling/config.json"), pooling);
        Checkpoint::open(folder.path()).map(|c| c.config().clone())
    };
    let old = br#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#;
    let c = with(old, br#"{"max_seq_length": 256}"#).expect("it is right");
    assert_eq!(c["modules"], serde_json::json!(["Transformer", "Pooling", "Normalize"]));
    assert_eq!(
        (&c["pooling"]["pooling_mode"], &c["pooling"]["pooling_mode_cls_token"]),
        (&"cls".into(), &true.into())
    );
    assert_eq!(c["sentence"]["max_seq_length"], 256);
    assert_eq!(c["sentence_transformers"]["activation_fn"], "torch.nn.modules.activation.Sigmoid");
    let c = with(br#"{"pooling_mode": "lasttoken"}"#, br#"{"max_seq_length": null}"#).expect("it is right");
    assert_eq!(
        (&c["pooling"]["pooling_mode"], &c["sentence"]["max_seq_length"]),
        (&"lasttoken".into(), &384.into())
    );
    let both = br#"{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": true}"#;
    let c = with(both, b"{}").expect("it is right");
    assert_eq!(c["pooling"]["pooling_mode"], serde_json::json!(["max", "mean"]));
    says(&with(b"[]", b"{}").expect_err("it is no object").to_string(), &["config.json", "no object"]);
    // A folder that is not there, or that is elsewhere.
    for path in ["3_Pooling", "../1_Pooling", ""] {
        let list = format!(r#"[{{"path": "{path}", "type": "a.Pooling"}}]"#);
        let folder = folder(&[("modules.json", list.as_bytes()), ("model.safetensors", &weights)]);
        let file =
            if path.starts_with('3') { "3_Pooling/config.json: is missing" } else { "modules.json: names" };
        says(&refused(Checkpoint::open(folder.path())), &[file, "modules.json", path]);
    }
    let folder = folder(&[("modules.json", b"{}"), ("model.safetensors", &weights)]);
    says(&refused(Checkpoint::open(folder.path())), &["modules.json", "no list"]);
}

#[test]
fn a_lone_file_is_alone() {
    let weights = one("w", 1);
    let folder = folder(&[("config.json", CONFIG), ("x.safetensors", &weights), ("x.bin", b"pickle")]);
    let c = Checkpoint::open(folder.path().join("x.safetensors")).expect("it is right");
    assert_eq!((c.tensors().len(), c.config().len(), c.classes().len()), (1, 0, 0));
    assert_eq!(c.file_text("config.json").expect("nothing is wrong"), None);
    says(&refused(Checkpoint::open(folder.path().join("x.bin"))), &["x.bin: is no checkpoint"]);
    says(&refused(Checkpoint::open(folder.path().join("y.gguf"))), &["y.gguf: ", "No such file"]);
}

#[test]
fn an_index_decides_which_file_a_tensor_is_read_from() {
    let (first, second) = (safetensors(&[("a", "U8", &[1], &[1]), ("b", "U8", &[1], &[1])]), one("a", 2));
    let text = index(&[("b", "x.safetensors"), ("a", "y.safetensors")]);
    let folder = folder(&[
        ("x.safetensors", &first),
        ("y.safetensors", &second),
        ("model.safetensors", b"not looked at"),
        (INDEX, text.as_bytes()),
    ]);
    let c = Checkpoint::open(folder.path()).expect("it is right");
    let read: Vec<_> = c.tensors().values().map(|t| (t.name(), t.bytes().expect("it is known")[0])).collect();
    assert_eq!(read, [("a", 2), ("b", 1)]);
    assert!(c.tensors()["a"].file().ends_with("y.safetensors"));
}

#[test]
fn what_is_wrong_with_an_index_is_said() {
    let weights = one("a", 1);
    let cases: [(&str, &[&str]); 7] = [
        (
            &index(&[("a", "x.safetensors"), ("b", "z.safetensors")]),
            &["z.safetensors: the shard is missing", "`b`"],
        ),
        (
            &index(&[("a", "x.safetensors"), ("b", "x.safetensors")]),
            &["x.safetensors: `b`: is not in the file", INDEX],
        ),
        (&index(&[("a", "../x.safetensors")]), &[INDEX, "`a`: `../x.safetensors`", "no file of the folder"]),
        (&index(&[("a", "/etc/passwd")]), &[INDEX, "no file of the folder"]),
        (&index(&[("a", "")]), &[INDEX, "no file of the folder"]),
        ("{\"weight_map\": {\"a\": 1}}", &[INDEX, "expected a string"]),
        ("{}", &[INDEX, "weight_map"]),
    ];
    for (text, words) in cases {
        let folder = folder(&[("x.safetensors", &weights), (INDEX, text.as_bytes())]);
        says(&refused(Checkpoint::open(folder.path())), words);
    }
}

#[test]
fn without_an_index_files_of_the_model_are_read_and_no_others() {
    let (model, other) = (one("a", 1), safetensors(&[("a", "U8", &[1], &[2]), ("b", "U8", &[1], &[2])]));
    let files: [(&str, &[u8]); 2] = [("consolidated.safetensors", &other), ("model.safetensors", &model)];
    let both = folder(&files);
    let c = Checkpoint::open(both.path()).expect("the model's is read");
    assert_eq!(c.tensors()["a"].bytes().expect("it is known"), [1]);
    assert!(!c.tensors().contains_key("b"), "it is the other file's");
    for names in [["model-1.safetensors", "model-2.safetensors"], ["x.safetensors", "y.safetensors"]] {
        let alike = folder(&[(names[0], &model), (names[1], &other)]);
        says(&refused(Checkpoint::open(alike.path())), &[names[1], "`a`: ", names[0], "holds it too", INDEX]);
    }
}

#[test]
fn a_type_that_is_not_known_is_listed_and_has_no_bytes() {
    let weights = safetensors(&[("a", "F3", &[3], &[1, 2]), ("b", "I16", &[1], &[1, 2])]);
    let folder = folder(&[("m.safetensors", &weights)]);
    let c = Checkpoint::open(folder.path()).expect("the others are right");
    assert_eq!(c.tensors()["a"].kind(), "f3");
    let e = c.tensors()["a"].bytes().expect_err("nobody knows how long it is").to_string();
    says(&e, &["m.safetensors: `a`: ", "`f3`"]);
    assert_eq!(c.tensors()["b"].bytes().expect("it is known"), [1, 2]);
}

#[test]
fn what_is_wrong_with_weights_is_said() {
    let huge = [1i64 << 40, 1 << 40, 0];
    let cases: [(Vec<u8>, &[&str]); 5] = [
        (safetensors(&[("a", "F32", &[2], &[0; 7])]), &["a: f32[2] needs 8 bytes, got 7"]),
        (safetensors(&[("a", "F8_E5M2", &[2], &[0; 7])]), &["`a`: f8_e5m2[2] does not fit in 7 bytes"]),
        (safetensors(&[("a", "F4", &[3], &[0; 2])]), &["`a`: f4[3] does not fit in 2 bytes"]),
        (safetensors(&[("a", "F32", &huge, &[])]), &["`a`: the shape ", "too many elements"]),
        (one("a", 1)[..20].to_vec(), &["the header has"]),
    ];
    for (weights, words) in cases {
        let folder = folder(&[("model.safetensors", &weights)]);
        let e = refused(Checkpoint::open(folder.path()));
        says(&e, &["model.safetensors: "]);
        says(&e, words);
    }
}

#[test]
fn what_is_wrong_with_a_folder_is_said() {
    let no_shard = folder(&[(INDEX, index(&[("a", "x.safetensors")]).as_bytes())]);
    says(&refused(Checkpoint::open(no_shard.path())), &["x.safetensors: the shard is missing", "`a`"]);
    let empty = folder(&[("config.json", CONFIG)]);
    says(&refused(Checkpoint::open(empty.path())), &["holds neither .safetensors nor .gguf files"]);
    says(&refused(Checkpoint::open(empty.path().join("none"))), &["none: ", "No such file"]);
    let bin = folder(&[("config.json", CONFIG), ("pytorch_model.bin", b"x")]);
    says(&refused(Checkpoint::open(bin.path())), &["pytorch_model.bin, which is not read; convert it"]);
    let pipeline = folder(&[("model_index.json", b"{}")]);
    says(&refused(Checkpoint::open(pipeline.path())), &["a pipeline of diffusers"]);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    let files = folder(&[("model.safetensors", pointer), ("model.gguf", pointer)]);
    says(&refused(Checkpoint::open(files.path())), &["model.safetensors: is a pointer of git-lfs"]);
    says(
        &refused(Checkpoint::open(files.path().join("model.gguf"))),
        &["model.gguf: is a pointer of git-lfs"],
    );
    says(&refused(Checkpoint::open("org/name")), &["org/name: is not here; `tenon pull org/name`"]);
    let words = folder(&[("tokenizer.json", b"{}")]);
    assert!(Checkpoint::open_texts(words.path()).expect("it needs no weights").tensors().is_empty());
    let weights = one("a", 1);
    let configs: [(&str, &str); 3] = [("[1]", "no object"), ("{\"a\": Nan}", "no JSON"), ("", "no JSON")];
    for (text, words) in configs {
        let folder = folder(&[("model.safetensors", &weights), ("config.json", text.as_bytes())]);
        says(&refused(Checkpoint::open(folder.path())), &["config.json: ", words]);
    }
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(5 << 20));
    let folder = folder(&[("model.safetensors", &weights), ("config.json", long.as_bytes())]);
    says(&refused(Checkpoint::open(folder.path())), &["config.json: has more than 4194304 bytes"]);
}

#[test]
fn other_files_are_those_of_the_folder_and_of_no_other() {
    let weights = one("a", 1);
    let folder =
        folder(&[("model.safetensors", &weights), ("chat_template.jinja", "{{ \u{e9} }}".as_bytes())]);
    std::fs::create_dir(folder.path().join("sub")).expect("the folder is writable");
    std::fs::File::create(folder.path().join("huge"))
        .and_then(|f| f.set_len(MAX_FILE + 1))
        .expect("a file of nothing takes no room");
    let c = Checkpoint::open(folder.path()).expect("it is right");
    assert_eq!(c.file_text("chat_template.jinja").expect("it is a text").as_deref(), Some("{{ \u{e9} }}"));
    assert_eq!(c.file_text("vocab.json").expect("nothing is wrong"), None);
    for name in ["../x", "/etc/passwd", "sub/x", "", ".", "..", "sub/"] {
        says(&c.file_text(name).expect_err("it leads out").to_string(), &["no name of a file in it"]);
    }
    says(&c.file_bytes("sub").expect_err("it is a folder").to_string(), &["sub: is not a regular file"]);
    says(&c.file_bytes("huge").expect_err("it is too long").to_string(), &["huge: has more than"]);
}
