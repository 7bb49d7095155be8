//! Files that are not as they must be, and templates that mean harm.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use text::{Chat, Extra, Template, Tokenizer};

use crate::common::{BPE512, SP2K, bpe512_metadata, golden, sp2k};

fn json_error(file: &Value) -> String {
    Tokenizer::from_json(file.to_string().as_bytes(), &Extra::default()).unwrap_err().to_string()
}

/// A `tokenizer.json` with a part replaced.
fn with(part: &str, value: Value) -> Value {
    let mut file: Value = serde_json::from_str(BPE512).unwrap();
    *file.pointer_mut(part).unwrap() = value;
    file
}

#[test]
fn a_file_that_is_no_tokenizer_is_refused() {
    for bytes in [
        &b""[..],
        b"{",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xff",
        b"{\"model\": {}}",
        b"{\"model\": {\"vocab\": 3}}",
    ] {
        assert!(Tokenizer::from_json(bytes, &Extra::default()).is_err(), "{bytes:?}");
    }
    for cut in (0..BPE512.len()).step_by(97) {
        assert!(Tokenizer::from_json(&BPE512.as_bytes()[..cut], &Extra::default()).is_err());
    }
}

#[test]
fn what_the_library_would_not_survive_is_refused() {
    let long = json!([["a", "b"], ["abcdefghijklmnopqrstuvwxyz".repeat(40), "b"]]);
    assert!(json_error(&with("/model/merges", long)).contains("a merge makes a token of"));
    let unknown = json!([["zz", "qq"]]);
    assert!(json_error(&with("/model/merges", unknown)).contains("zz"));
    assert!(json_error(&with("/model/vocab", json!({"a": 4_294_967_295u32}))).contains("too large"));
    assert!(json_error(&with("/model/vocab", json!({}))).contains("no vocabulary"));
    assert!(json_error(&with("/model/continuing_subword_prefix", json!("##"))).contains("not supported"));
    assert!(json_error(&with("/model/dropout", json!(0.5))).contains("chance"));
    let regex = json!({"type": "Split", "pattern": {"Regex": "((a{1000}){1000}){1000}"}, "behavior": "Isolated",
        "invert": false});
    assert!(json_error(&with("/pre_tokenizer", regex)).contains("too large when unrolled"));
    let empty = json!({"type": "FixedLength", "length": 0});
    assert!(json_error(&with("/pre_tokenizer", empty)).contains("length 0"));
    let broken = json!({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": false});
    assert!(
        Tokenizer::from_json(with("/pre_tokenizer", broken).to_string().as_bytes(), &Extra::default())
            .is_err()
    );
}

#[test]
fn parts_that_make_a_text_much_longer_are_refused() {
    let replace =
        |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let wrong = |part: &str, value: Value| {
        let made = Tokenizer::from_json(with(part, value).to_string().as_bytes(), &Extra::default());
        let text = made.and_then(|t| t.encode(&"a ".repeat(20_000), true, true).map(drop));
        text.unwrap_err().to_string()
    };
    let ten: Vec<Value> = (0..10).map(|_| replace("a", &"a".repeat(10))).collect();
    let grown = wrong("/normalizer", json!({"type": "Sequence", "normalizers": ten}));
    assert!(grown.contains("normalizer makes a text more than 64 times as long"), "{grown}");
    let long = wrong("/normalizer", replace("a", &"b".repeat(1 << 20)));
    assert!(long.contains("normalizer: a Replace by 1048576 bytes"), "{long}");
    let long = wrong("/normalizer", json!({"type": "Prepend", "prepend": "b".repeat(1 << 20)}));
    assert!(long.contains("normalizer: a Prepend of 1048576 bytes"), "{long}");
    let empty = wrong("/normalizer", replace("", "a"));
    assert!(empty.contains("normalizer: a Replace of nothing"), "{empty}");
    let ten: Vec<Value> = (0..10).map(|_| replace("a", &"a".repeat(10))).collect();
    let grown = wrong("/decoder", json!({"type": "Sequence", "decoders": ten}));
    assert!(grown.contains("decoder: a token of"), "{grown}");
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let ten: Vec<Value> = (0..10).map(|_| level.clone()).collect();
    let grown = wrong("/pre_tokenizer", json!({"type": "Sequence", "pretokenizers": ten}));
    assert!(grown.contains("pre_tokenizer: more than 4 of ByteLevel"), "{grown}");
    let special = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let template = json!({"type": "TemplateProcessing", "single": vec![special; 5000], "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}});
    let many = wrong("/post_processor", template);
    assert!(many.contains("post_processor: a text gets more than 1024 tokens"), "{many}");
    let kind = wrong("/decoder", json!("Metaspace"));
    assert!(kind.contains("decoder: a record with a `type` is needed"), "{kind}");
}

#[test]
fn files_beside_it_are_checked() {
    let read = |config: Option<&Value>, generation: Option<&Value>| {
        let extra = Extra { config, generation_config: generation, ..Extra::default() };
        Tokenizer::from_json(BPE512.as_bytes(), &extra).map(|_| ()).unwrap_err().to_string()
    };
    assert!(read(Some(&json!({"bos_token": 3})), None).contains("bos_token is not a token"));
    assert!(read(Some(&json!({"added_tokens_decoder": {"7": {}}})), None).contains("7 has no content"));
    assert!(read(None, Some(&json!({"eos_token_id": "x"}))).contains("eos_token_id"));
    assert!(read(None, Some(&json!({"eos_token_id": [-1]}))).contains("-1 is not a token id"));
}

#[test]
fn changed_files_never_panic() {
    // Each value of the file replaced by others, one at a time, but for the long lists.
    let file: Value = serde_json::from_str(SP2K).unwrap();
    let mut places = vec![String::new()];
    let mut at = 0;
    while at < places.len() {
        let place = places[at].clone();
        let value = file.pointer(&place).unwrap();
        let fields = value.as_object().filter(|f| f.len() < 30).into_iter().flat_map(|f| f.keys().cloned());
        let items = value.as_array().filter(|i| i.len() < 30).map_or(0, Vec::len);
        let keys: Vec<String> = fields.chain((0..items).map(|n| n.to_string())).collect();
        places.extend(keys.iter().map(|key| format!("{place}/{key}")));
        at += 1;
    }
    assert!(places.len() > 50);
    for place in &places {
        for new in [Value::Null, json!(-1), json!(""), json!([]), json!({}), json!(u64::MAX), json!("▁")] {
            let mut changed = file.clone();
            *changed.pointer_mut(place).unwrap() = new;
            if let Ok(tokenizer) = Tokenizer::from_json(changed.to_string().as_bytes(), &Extra::default()) {
                let _ = tokenizer.encode("a <s> é\n", true, true).map(|ids| tokenizer.decode(&ids, false));
            }
        }
    }
}

fn gguf_error(metadata: &Map<String, Value>) -> String {
    Tokenizer::from_gguf(metadata).unwrap_err().to_string()
}

#[test]
fn a_vocabulary_that_is_not_as_it_must_be_is_refused() {
    let good = bpe512_metadata("qwen2");
    let wrong = |key: &str, value: Option<Value>| {
        let mut metadata = good.clone();
        match value {
            Some(value) => metadata.insert(format!("tokenizer.ggml.{key}"), value),
            None => metadata.remove(&format!("tokenizer.ggml.{key}")),
        };
        gguf_error(&metadata)
    };
    assert!(gguf_error(&Map::new()).contains("there is no key tokenizer.ggml.model"));
    assert!(wrong("model", Some(json!("rwkv"))).contains("known are gpt2"));
    assert!(wrong("model", Some(json!(3))).contains("tokenizer.ggml.model is not a text"));
    assert!(wrong("tokens", None).contains("there is no key tokenizer.ggml.tokens"));
    assert!(wrong("tokens", Some(json!("a"))).contains("tokenizer.ggml.tokens is not a list"));
    assert!(wrong("tokens", Some(json!([]))).contains("tokenizer.ggml.tokens is empty"));
    assert!(wrong("tokens", Some(json!(["a", 1]))).contains("item 1 is no text"));
    assert!(wrong("tokens", Some(json!(["a", "a"]))).contains("\"a\" has two ids, 0 and 1"));
    assert!(wrong("token_type", Some(json!([1]))).contains("tokenizer.ggml.token_type has 1 items"));
    assert!(wrong("scores", Some(json!([1.0]))).contains("tokenizer.ggml.scores has 1 items"));
    assert!(wrong("merges", None).contains("there is no key tokenizer.ggml.merges"));
    assert!(wrong("merges", Some(json!(["ab"]))).contains("\"ab\", is not two texts"));
    assert!(wrong("merges", Some(json!([""]))).contains("is not two texts"));
    assert!(wrong("merges", Some(json!(["qqq zz"]))).contains("\"qqq\" is no token"));
    assert!(wrong("merges", Some(json!(["z q", "q Ġ"]))).contains("is no token"));
    assert!(wrong("bos_token_id", Some(json!("x"))).contains("bos_token_id is not a token id"));
    assert!(wrong("add_bos_token", Some(json!(1))).contains("add_bos_token is not true or false"));
    let mut unset = good.clone();
    unset.remove("tokenizer.ggml.bos_token_id");
    unset.insert("tokenizer.ggml.add_bos_token".into(), true.into());
    assert!(gguf_error(&unset).contains("bos_token_id is not set"));
}

#[test]
fn ids_that_no_token_has_count_as_not_given() {
    let mut metadata = bpe512_metadata("qwen2");
    metadata.insert("tokenizer.ggml.bos_token_id".into(), 70_000.into());
    metadata.insert("tokenizer.ggml.padding_token_id".into(), (-1).into());
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (None, Some(2)));
}

#[test]
fn changed_vocabularies_never_panic() {
    let files = [
        golden(include_str!("../data/spm.json")).0,
        golden(include_str!("../data/unigram.json")).0,
        golden(include_str!("../data/wordpiece.json")).0,
        bpe512_metadata("llama-bpe"),
    ];
    let news = [
        Value::Null,
        json!(-1),
        json!(7),
        json!(""),
        json!([]),
        json!(["▁"]),
        json!([3, 255, 255, 255, 255, 0]),
    ];
    for metadata in &files {
        for key in metadata.keys() {
            for new in &news {
                let mut changed = metadata.clone();
                changed.insert(key.clone(), new.clone());
                if let Ok(tokenizer) = Tokenizer::from_gguf(&changed) {
                    let _ =
                        tokenizer.encode("a <s> é\n ﬁ", true, true).map(|ids| tokenizer.decode(&ids, false));
                }
            }
        }
    }
}

#[test]
fn a_broken_map_of_characters_is_an_error_not_a_panic() {
    let (good, _) = golden(include_str!("../data/unigram.json"));
    let map = good["tokenizer.ggml.precompiled_charsmap"].as_array().unwrap();
    for at in 0..map.len().min(1100) {
        let mut changed = map.clone();
        changed[at] = json!(255 - changed[at].as_i64().unwrap());
        let mut metadata = good.clone();
        metadata.insert("tokenizer.ggml.precompiled_charsmap".into(), changed.into());
        if let Ok(tokenizer) = Tokenizer::from_gguf(&metadata) {
            let _ = tokenizer.encode("ﬁ Ａ①\t x é東", false, true);
        }
    }
}

/// A template that does no harm: it is refused, or ends soon.
fn harmless(template: &str) -> Option<String> {
    Template::new(template)
        .and_then(|t| t.render(&Chat::of(&[("user", "Hi")])))
        .map_err(|e| e.to_string())
        .err()
}

/// In a loop that goes on for long.
fn looped(body: &str) -> String {
    format!(
        "{{% set ns = namespace(a=[1, 2], b=[]) %}}{{% for i in range(9000) %}}{{% for j in range(90) %}}{body}\
         {{% endfor %}}{{% endfor %}}"
    )
}

#[test]
fn a_template_cannot_run_for_ever() {
    let doing = [
        looped("x"),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".into(),
        "{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}"
            .into(),
        "{{ 'x' * 100000000000 }}".into(),
        "{{ [1] * 100000000000 }}".into(),
        "{{ '{:>1000000000}'.format(1) }}".into(),
        "{{ '{:>{}}'.format(1, 1000000000) }}".into(),
        "{{ '%0100000000d' | format(1) }}".into(),
        "{{ 'a' | indent(1000000000) }}".into(),
        "{{ strftime_now('%c' * 100000) }}".into(),
        "{{ [[1] * 1000000] * 1000000 }}".into(),
        "{{ [1] * 90000000 }}".into(),
        "{{ 'x' ~ messages * 100000000 }}".into(),
        "{{ 'x' ~ -1 + 2 ~ (messages * 100000000) }}".into(),
        "{{ (messages * 100000000) | upper }}".into(),
        "{{ ''.join(['a' * 100000] * 100000) }}".into(),
        "{{ ['a' * 100000] * 100000 | join }}".into(),
        "{{ (['a' * 100000] * 100000) | join }}".into(),
        "{{ (['a' * 100000] * 100000) | join(',') }}".into(),
        "{{ range(90000) | map('replace', 1, 'a' * 1000000) | upper }}".into(),
        "{% set a = ['a' * 1000000] %}{% for i in range(20) %}{% set a = a + a %}{{ a | upper | length }}{% endfor %}"
            .into(),
        "{% set a = 'a' * 1000000 %}{{ ('{0}' * 100000).format(a) | length }}".into(),
        "{{ 'x'.center(1000000000) }}".into(),
    ];
    for template in doing {
        assert!(harmless(&template).is_some(), "{template}");
    }
}

#[test]
fn a_template_cannot_make_values_that_are_too_deep() {
    let bodies = [
        "{% set ns.a = [ns.a] %}",
        "{% set ns.a = (ns.a,) %}",
        "{% set ns.a = ns.a, %}",
        "{% set ns.a = {'a': ns.a} %}",
        "{% set ns.a = dict(a=ns.a) %}",
        "{% set ns.a = {'a': ns.a}.items() %}",
        "{% set ns.a = namespace(a=ns.a) %}",
        "{% set n = namespace() %}{% set n.a = ns.b %}{% set ns.b = n %}",
        "{% set ns.a = ns.a * 1 %}",
        "{% set ns.a = ns.a[0:] %}",
        "{% set ns.a = ns.a | batch(2) %}",
    ];
    for body in bodies {
        assert!(harmless(&looped(body)).is_some(), "{body}");
    }
    assert!(harmless("{% set __keep = 1 %}").is_some());
    assert!(harmless("{% macro __keep_in(x) %}{% endmacro %}").is_some());
}

#[test]
fn a_template_cannot_share_values_until_they_are_too_large() {
    let ends = ["{{ a == b }}", "{{ a ~ 'x' }}"];
    for end in ends {
        let template = format!("{}{end}", "{% set a = [a, a] %}{% set b = (b, {'b': b}) %}".repeat(60));
        assert!(harmless(&template).is_some(), "{end}");
    }
    assert!(harmless("{{ [[[1] * 90000] * 90000] * 90000 == 1 }}").is_some());
    let nested =
        format!("{}{{{{ x ~ '' }}}}{}", "{% for x in [[x, x]] %}".repeat(60), "{% endfor %}".repeat(60));
    assert!(harmless(&nested).is_some());
}

#[test]
fn a_template_cannot_be_nested_until_the_stack_ends() {
    let many = 200_000;
    let texts = [
        format!("{{{{ {}1{} }}}}", "(".repeat(many), ")".repeat(many)),
        format!("{{{{ {}{} }}}}", "[".repeat(many), "]".repeat(many)),
        "{% if 1 %}".repeat(many / 4),
        format!("{{{{ {}1 }}}}", "not ".repeat(many)),
        format!("{{{{ {}x }}}}", "-".repeat(many)),
        format!("{{{{ 1{} }}}}", "+1".repeat(many)),
        format!("{{{{ x{} }}}}", ".a".repeat(many)),
        format!("{{{{ x{} }}}}", "|list".repeat(many)),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(many / 8)),
        "x".repeat(2 << 20),
    ];
    for text in texts {
        assert!(Template::new(&text).is_err(), "{}", &text[..60]);
    }
}

#[test]
fn tags_that_do_not_end_are_errors() {
    for text in ["{{ 'a", "{{ [1, }}", "{% raw %}", "{% if a", "{{ a }", "{#"] {
        assert!(harmless(text).is_some(), "{text}");
    }
    assert!(harmless("{").is_none());
}

/// Bits of templates, which make sense only now and then.
const BITS: [&str; 48] = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "-",
    "+",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    "==",
    ".",
    "|",
    "'",
    "\"",
    "\\",
    " ",
    "\n",
    "é",
    "a",
    "1",
    "if ",
    "else ",
    "elif ",
    "endif",
    "for ",
    "in ",
    "endfor",
    "set ",
    "raw",
    "endraw",
    "generation",
    "endgeneration",
    "macro ",
    "endmacro",
    "messages",
    "not ",
    "is ",
    "loop",
    "namespace",
    "__keep",
    "\0",
];

proptest! {
    #[test]
    fn no_text_makes_a_template_panic(bits in proptest::collection::vec(0..BITS.len(), 0..40)) {
        let text: String = bits.iter().map(|&bit| BITS[bit]).collect();
        let _ = harmless(&text);
    }

    #[test]
    fn no_ids_make_decoding_panic(ids in proptest::collection::vec(any::<u32>(), 0..20)) {
let _ = sp2k().decode(&ids, true);
    }
}
