//! `tokenizer.json`, and what stands beside it.

use proptest::prelude::*;
use serde_json::{Value, json};
use text::{Extra, Stream, Template, Tokenizer};

use crate::common::{self, BPE512, SP2K, bpe512, sp2k};

#[test]
fn ids_and_texts_are_those_of_the_reference() {
    let expected = [
        (bpe512(), include_str!("../data/bpe512.expected.json")),
        (sp2k(), include_str!("../data/sp2k.expected.json")),
    ];
    for (tokenizer, list) in expected {
        for case in common::cases(&serde_json::from_str(list).unwrap()) {
            assert_eq!(tokenizer.encode(&case.text, true, true).unwrap(), case.ids, "{:?}", case.text);
            assert_eq!(Some(tokenizer.decode(&case.ids, true)), case.decoded, "{:?}", case.text);
        }
    }
}

#[test]
fn special_tokens_in_text_are_text_unless_asked() {
    let tokenizer = bpe512();
    let text = "<|im_start|>user";
    assert_eq!(tokenizer.encode(text, true, false).unwrap()[0], 3);
    let plain = tokenizer.encode(text, false, false).unwrap();
    assert!(plain.iter().all(|&id| !tokenizer.is_special(id)));
    assert_eq!(tokenizer.decode(&plain, true), text);
}

#[test]
fn the_ids_around_a_text_are_added_when_asked() {
    let tokenizer = sp2k();
    assert_eq!(tokenizer.encode("a", true, true).unwrap()[0], 1);
    assert_ne!(tokenizer.encode("a", true, false).unwrap()[0], 1);
}

#[test]
fn special_tokens_are_written_out_when_asked() {
    let tokenizer = bpe512();
    let ids = tokenizer.encode("<s>a</s>", true, false).unwrap();
    assert_eq!(tokenizer.decode(&ids, false), "<s>a</s>");
    assert_eq!(tokenizer.decode(&ids, true), "a");
}

#[test]
fn ids_without_a_token_are_left_out() {
    assert_eq!(bpe512().decode(&[500_000, u32::MAX], false), "");
    assert_eq!(bpe512().token_bytes(500_000), None);
}

#[test]
fn names_come_from_the_configuration() {
    let config = json!({"bos_token": "<s>", "eos_token": {"content": "<|im_end|>", "lstrip": false}});
    let generation = json!({"eos_token_id": [2, 4]});
    let extra = Extra { config: Some(&config), generation_config: Some(&generation), ..Extra::default() };
    let tokenizer = Tokenizer::from_json(BPE512.as_bytes(), &extra).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(4)));
    assert_eq!(tokenizer.ends(), [2, 4]);
    assert!(tokenizer.is_end(4) && !tokenizer.is_end(3));
    assert_eq!(tokenizer.special_texts()[1], ("eos_token".to_string(), "<|im_end|>".to_string()));
}

#[test]
fn one_id_may_stand_alone_as_the_end() {
    let generation = json!({"eos_token_id": 7, "bos_token_id": 1});
    let extra = Extra { generation_config: Some(&generation), ..Extra::default() };
    let tokenizer = Tokenizer::from_json(BPE512.as_bytes(), &extra).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(7)));
    assert_eq!(tokenizer.ends(), [2, 4, 7]);
}

#[test]
fn tokens_that_only_the_configuration_has_are_added() {
    let config = json!({
        "eos_token": "<end>",
        "added_tokens_decoder": {
            "512": {"content": "<tool>", "special": false},
            "1": {"content": "<s>", "special": true},
        },
    });
    let extra = Extra { config: Some(&config), ..Extra::default() };
    let tokenizer = Tokenizer::from_json(BPE512.as_bytes(), &extra).unwrap();
    assert_eq!(tokenizer.encode("<tool><end>", true, false).unwrap(), [512, 513]);
    assert!(tokenizer.is_special(513) && !tokenizer.is_special(512));
    assert_eq!(tokenizer.vocab_size(), 514);
}

#[test]
fn tokens_are_found_by_text_and_id() {
    let tokenizer = sp2k();
    let id = tokenizer.id_of("<0x0A>").unwrap();
    assert_eq!(tokenizer.token_bytes(id), Some(&b"\n"[..]));
    assert_eq!(tokenizer.token_text(id), Some("<0x0A>"));
    assert_eq!(tokenizer.token_bytes(tokenizer.id_of("▁").unwrap()), Some(&b" "[..]));
    assert_eq!(tokenizer.id_of("no such token"), None);
}

/// A tokenizer of words with a decoder.
fn words(decoder: Value) -> Tokenizer {
    let file = json!({
        "version": "1.0",
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "un": 1, "##do": 2, "it": 3, ".": 4}},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": decoder,
    });
    Tokenizer::from_json(file.to_string().as_bytes(), &Extra::default()).unwrap()
}

#[test]
fn every_decoder_is_understood() {
    let ids = [1, 2, 3, 4];
    let decode = |decoder: Value| words(decoder).decode(&ids, true);
    assert_eq!(decode(Value::Null), "un ##do it .");
    assert_eq!(decode(json!({"type": "WordPiece", "prefix": "##", "cleanup": true})), "undo it.");
    assert_eq!(decode(json!({"type": "WordPiece", "prefix": "##", "cleanup": false})), "undo it .");
    assert_eq!(decode(json!({"type": "Fuse"})), "un##doit.");
    let replace = json!({"type": "Replace", "pattern": {"Regex": "#+"}, "content": "_"});
    assert_eq!(decode(json!({"type": "Sequence", "decoders": [replace, {"type": "Fuse"}]})), "un_doit.");
}

#[test]
fn a_decoder_that_is_not_known_is_refused() {
    let file: Value = serde_json::from_str(BPE512).unwrap();
    for decoder in [json!({"type": "CTC"}), json!({"type": "Nothing"}), json!(3)] {
        let mut file = file.clone();
        file["decoder"] = decoder;
        let wrong = Tokenizer::from_json(file.to_string().as_bytes(), &Extra::default()).unwrap_err();
        assert!(wrong.to_string().starts_with("tokenizer.json: "), "{wrong}");
    }
}

#[test]
fn truncation_and_padding_of_the_file_do_not_count() {
    let mut file: Value = serde_json::from_str(SP2K).unwrap();
    file["truncation"] =
        json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes(), &Extra::default()).unwrap();
    let text = "a b c d e f g";
    assert_eq!(tokenizer.encode(text, true, true).unwrap(), sp2k().encode(text, true, true).unwrap());
}

proptest! {
    #[test]
    fn any_ids_decode_as_by_the_library_of_the_format(
        ids in proptest::collection::vec(0u32..2100, 0..30),
        bytes in any::<bool>(),
        skip in any::<bool>(),
    ) {
        let (file, tokenizer) = if bytes { (BPE512, bpe512()) } else { (SP2K, sp2k()) };
        let library: tokenizers::Tokenizer = file.parse().unwrap();
        let text = tokenizer.decode(&ids, skip);
        // The library writes U+FFFD for every byte of a run that is not UTF-8 throughout.
        if bytes || !text.contains('\u{fffd}') {
            prop_assert_eq!(text, library.decode(&ids, skip).unwrap());
        }
    }
}

#[test]
fn what_is_made_can_be_shared_among_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Tokenizer>();
    shared::<Template>();
    shared::<Stream>();
}
