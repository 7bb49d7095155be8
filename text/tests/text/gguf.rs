//! Vocabularies of GGUF files.

use serde_json::{Map, Value, json};
use text::Tokenizer;

use crate::common::{bpe512_metadata, cases, golden};

fn wrong(metadata: &Map<String, Value>) -> String {
    Tokenizer::from_gguf(metadata).unwrap_err().to_string()
}

#[test]
fn pairs_of_bytes_give_the_ids_of_the_same_tokenizer() {
    let tokenizer = Tokenizer::from_gguf(&bpe512_metadata("dbrx")).unwrap();
    let list = serde_json::from_str(include_str!("../data/bpe512.expected.json")).unwrap();
    for case in cases(&list) {
        assert_eq!(tokenizer.encode(&case.text, true, true).unwrap(), case.ids, "{:?}", case.text);
        assert_eq!(Some(tokenizer.decode(&case.ids, true)), case.decoded, "{:?}", case.text);
    }
}

/// Ids and texts of sentencepiece 0.2.3, which trained the vocabulary.
#[test]
fn merging_by_score_gives_the_ids_of_sentencepiece() {
    check(include_str!("../data/spm.json"));
}

/// Ids of sentencepiece 0.2.3, which trained the vocabulary.
#[test]
fn the_likeliest_pieces_are_those_of_sentencepiece() {
    check(include_str!("../data/unigram.json"));
}

/// Ids and texts of tokenizers 0.23.3, which trained the vocabulary.
#[test]
fn the_pieces_of_words_are_those_of_the_reference() {
    check(include_str!("../data/wordpiece.json"));
}

/// The ids in the middle are those of the texts by themselves.
#[test]
fn two_texts_are_one_with_what_stands_between_them() {
    let (metadata, _) = golden(include_str!("../data/wordpiece.json"));
    let words = Tokenizer::from_gguf(&metadata).unwrap();
    let (a, b) =
        (words.encode("the end", true, false).unwrap(), words.encode("in, in", true, false).unwrap());
    let pair = words.whole("the end", Some("in, in"), 100).unwrap();
    assert_eq!(pair.ids, [&[2], &a[..], &[3], &b[..], &[3]].concat());
    let segments = [vec![0; a.len() + 2], vec![1; b.len() + 1]].concat();
    assert_eq!((&pair.segments, pair.length), (&segments, pair.ids.len()));
    let one = words.whole("the end", None, 100).unwrap();
    assert_eq!(one.ids, words.encode("the end", true, true).unwrap());
    assert_eq!(one.segments, vec![0; one.ids.len()]);
    let cut = words.whole("the end", Some("in, in"), 6).unwrap();
    assert_eq!((cut.ids.len(), cut.ids[5], cut.length), (6, 3, pair.ids.len()));
    // Roberta's have no segments, and what ends a text stands twice between two.
    let (metadata, _) = golden(include_str!("../data/unigram.json"));
    let pieces = Tokenizer::from_gguf(&metadata).unwrap();
    let (a, b) = (pieces.encode("the end", true, true).unwrap(), pieces.encode("in", true, false).unwrap());
    let end = *a.last().unwrap();
    let pair = pieces.whole("the end", Some("in"), 100).unwrap();
    assert_eq!(pair.ids, [&a[..], &[end], &b[..], &[end]].concat());
    assert!(pair.segments.iter().all(|s| *s == 0));
}

fn check(file: &str) {
    let (metadata, cases) = golden(file);
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    for case in cases {
        assert_eq!(tokenizer.encode(&case.text, false, true).unwrap(), case.ids, "{:?}", case.text);
        if let Some(decoded) = case.decoded {
            assert_eq!(tokenizer.decode(&case.ids, true), decoded, "{:?}", case.text);
        }
    }
}

#[test]
fn every_known_way_to_cut_text_loads() {
    let message = wrong(&bpe512_metadata("no such way"));
    let (start, names) = message.split_once("known are ").unwrap();
    assert!(start.contains("\"no such way\""), "{message}");
    let names: Vec<&str> = names.split(", ").collect();
    assert!(names.len() > 80, "{names:?}");
    for name in names {
        let tokenizer =
            Tokenizer::from_gguf(&bpe512_metadata(name)).map_err(|e| format!("{name}: {e}")).unwrap();
        let text = "It's 12345 o'clock,\n\n  \tnaïve 東京 IT'LL do {x}=3;";
        let ids = tokenizer.encode(text, false, false).unwrap();
        // Those that do not write bytes lose what this vocabulary has no tokens for.
        if !["gemma4", "granite-embed-multi-311m", "sarvam-moe"].contains(&name) {
            assert_eq!(tokenizer.decode(&ids, true), text, "{name}");
        }
    }
}

#[test]
fn ways_to_cut_numbers_differ() {
    // One token for each pair of digits, so that the cut shows.
    let digits: Vec<String> = (0..10).map(|d| d.to_string()).collect();
    let pairs = digits.iter().flat_map(|a| digits.iter().map(move |b| format!("{a}{b}")));
    let pairs: Vec<String> = pairs.collect();
    let merges: Vec<String> = pairs.iter().map(|p| format!("{} {}", &p[..1], &p[1..])).collect();
    let tokens: Vec<&String> = digits.iter().chain(&pairs).collect();
    let pieces_of = |pre: &str, text: &str| {
        let metadata = json!({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges});
        let tokenizer = Tokenizer::from_gguf(metadata.as_object().unwrap()).unwrap();
        let ids = tokenizer.encode(text, false, false).unwrap();
        ids.iter().map(|&id| tokenizer.token_text(id).unwrap().to_string()).collect::<Vec<_>>().join("|")
    };
    let pieces = |pre: &str| pieces_of(pre, "1234567");
    assert_eq!(pieces("gpt-2"), "12|34|56|7");
    assert_eq!(pieces("dbrx"), "12|3|45|6|7");
    assert_eq!(pieces("qwen2"), "1|2|3|4|5|6|7");
    assert_eq!(pieces("smollm"), "1|2|3|4|5|6|7");
    // From the right.
    assert_eq!(pieces("afmoe"), "1|23|4|56|7");
    assert_eq!(pieces("superbpe"), "1|23|4|56|7");
    assert_eq!(pieces("tiny_aya"), "1|23|4|56|7");
    // Unless letters follow.
    assert_eq!(pieces_of("tiny_aya", "1234x"), "12|3|4");
    assert_eq!(pieces_of("afmoe", "1234x"), "1|23|4");
    for pre in ["afmoe", "superbpe", "tiny_aya"] {
        assert_eq!(pieces_of(pre, "12x345 6"), "12|34|5|6", "{pre}");
        assert_eq!(pieces_of(pre, &"1".repeat(200_000)).len(), 333_332, "{pre}");
    }
}

#[test]
fn a_word_that_is_a_token_may_be_that_token_without_merges() {
    let tokens = ["a", "b", "c", "ab", "abc"];
    let ids = |pre: &str| {
        let metadata = json!({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.add_bos_token": false});
        Tokenizer::from_gguf(metadata.as_object().unwrap()).unwrap().encode("abc", false, false).unwrap()
    };
    assert_eq!(ids("llama-bpe"), [4]);
    assert_eq!(ids("qwen2"), [3, 2]);
}

/// A vocabulary that merges by score, of these tokens behind the usual three.
fn spm(tokens: &[(&str, f32, u32)], prefix: bool) -> Map<String, Value> {
    let usual = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)];
    let all: Vec<(&str, f32, u32)> = usual.into_iter().chain(tokens.iter().copied()).collect();
    let metadata = json!({
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": all.iter().map(|t| t.0).collect::<Vec<_>>(),
        "tokenizer.ggml.scores": all.iter().map(|t| t.1).collect::<Vec<_>>(),
        "tokenizer.ggml.token_type": all.iter().map(|t| t.2).collect::<Vec<_>>(),
        "tokenizer.ggml.add_space_prefix": prefix,
    });
    metadata.as_object().unwrap().clone()
}

#[test]
fn the_best_score_is_merged_first_and_the_leftmost_of_equals() {
    let tokens = [("a", 0.0, 1), ("b", 0.0, 1), ("ab", -2.0, 1), ("ba", -1.0, 1), ("aa", -3.0, 1)];
    let tokenizer = Tokenizer::from_gguf(&spm(&tokens, false)).unwrap();
    assert_eq!(tokenizer.encode("aba", false, false).unwrap(), [3, 6]);
    assert_eq!(tokenizer.encode("aaa", false, false).unwrap(), [7, 3]);
    assert_eq!(tokenizer.encode("", false, true).unwrap(), [1]);
}

#[test]
fn a_blank_stands_before_text_at_the_beginning_and_behind_special_tokens() {
    let tokens = [("▁", 0.0, 1), ("a", 0.0, 1), ("▁a", -1.0, 1), ("<x>", 0.0, 4)];
    let tokenizer = Tokenizer::from_gguf(&spm(&tokens, true)).unwrap();
    assert_eq!(tokenizer.encode("a a</s>a", true, true).unwrap(), [1, 5, 5, 2, 5]);
    // A token that users defined is one even where special tokens are text.
    assert_eq!(tokenizer.encode("a<x>a", false, false).unwrap(), [5, 6, 5]);
    assert_eq!(tokenizer.decode(&[5, 5], true), "a a");
    let tokenizer = Tokenizer::from_gguf(&spm(&tokens, false)).unwrap();
    assert_eq!(tokenizer.encode("a a", false, false).unwrap(), [4, 5]);
    assert_eq!(tokenizer.decode(&[5, 5], true), " a a");
}

#[test]
fn what_is_no_token_is_written_in_bytes_or_is_unknown() {
    let bytes = [("<0xC3>", 0.0, 6), ("<0xA9>", 0.0, 6)];
    let tokenizer = Tokenizer::from_gguf(&spm(&bytes, false)).unwrap();
    assert_eq!(tokenizer.encode("é", false, false).unwrap(), [3, 4]);
    assert_eq!(tokenizer.decode(&[3, 4], true), "é");
    assert_eq!(tokenizer.encode("z", false, false).unwrap(), [0]);
}

#[test]
fn the_longest_special_token_is_found_first() {
    let tokens = [("<a>", 0.0, 3), ("<a><b>", 0.0, 3), ("x", 0.0, 1)];
    let tokenizer = Tokenizer::from_gguf(&spm(&tokens, false)).unwrap();
    assert_eq!(tokenizer.encode("x<a><b><a>x", true, false).unwrap(), [5, 4, 3, 5]);
}

#[test]
fn white_space_behind_the_special_tokens_of_phi_3_is_theirs() {
    let mut metadata = spm(&[("<|end|>", 0.0, 3), ("x", 0.0, 1), ("▁", 0.0, 1)], false);
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert_eq!(tokenizer.encode("<|end|> x", true, false).unwrap(), [3, 5, 4]);
    metadata.insert("general.name".into(), "Phi-3 mini".into());
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert_eq!(tokenizer.encode("<|end|> x", true, false).unwrap(), [3, 4]);
}

#[test]
fn what_ends_an_answer_is_found_by_its_text() {
    let tokens =
        [("<|im_end|>", 0.0, 1), ("<|endoftext|>", 0.0, 3), ("<|end|>", 0.0, 3), ("<|eom_id|>", 0.0, 3)];
    let tokenizer = Tokenizer::from_gguf(&spm(&tokens, false)).unwrap();
    assert_eq!(tokenizer.ends(), [2, 3, 4, 5, 6]);
    // Files that call it a usual token are mended.
    assert!(tokenizer.is_special(3));
    let calls = [("<|end|>", 0.0, 3), ("<|return|>", 0.0, 3), ("<|call|>", 0.0, 3)];
    let tokenizer = Tokenizer::from_gguf(&spm(&calls, false)).unwrap();
    assert_eq!(tokenizer.ends(), [2, 4, 5]);
    assert!(!tokenizer.is_special(3));
}

#[test]
fn keys_say_what_is_added_to_texts() {
    let mut metadata = spm(&[("x", 0.0, 1)], false);
    metadata.insert("tokenizer.ggml.add_bos_token".into(), false.into());
    metadata.insert("tokenizer.ggml.add_eos_token".into(), true.into());
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert_eq!(tokenizer.encode("x", false, true).unwrap(), [3, 2]);
    assert_eq!(tokenizer.encode("x", false, false).unwrap(), [3]);
}

#[test]
fn characters_are_cut_and_merged_as_text_where_the_file_says_so() {
    let tokens = ["▁", "a", "▁a", "\n", "\n\n", "<0xC3>", "<0xA9>", "<bos>"];
    let metadata = json!({
        "tokenizer.ggml.model": "gemma4",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1, 1, 1, 1, 1, 6, 6, 3],
        "tokenizer.ggml.merges": ["▁ a"],
        "tokenizer.ggml.bos_token_id": 7,
    });
    let tokenizer = Tokenizer::from_gguf(metadata.as_object().unwrap()).unwrap();
    assert_eq!(tokenizer.encode("a a\n\né", false, true).unwrap(), [7, 1, 2, 4, 5, 6]);
    assert_eq!(tokenizer.decode(&[7, 1, 2, 4, 5, 6], true), "a a\n\né");
}
