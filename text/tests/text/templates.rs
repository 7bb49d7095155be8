//! Chat templates.

use serde_json::{Value, json};
use text::{Chat, Error, Extra, Json, Template, Tokenizer};

use crate::common::{BPE512, bpe512_metadata};

fn render(template: &str) -> Result<String, Error> {
    Template::new(template)?.render(&Chat::of(&[("user", "Hi")]))
}

/// What transformers 5.24 makes of the same templates, with jinja2 3.1.6.
#[test]
fn templates_are_rendered_as_by_the_reference() {
    let file = include_str!("../data/templates.json");
    // The order of keys shows in what templates write.
    let part = |name: &str| {
        let line = file.lines().find(|l| l.starts_with(&format!("\"{name}\": "))).unwrap();
        Json::parse(line.split_once(": ").unwrap().1.trim_end_matches(',')).unwrap()
    };
    let (messages, tools) = (part("messages"), part("tools"));
    let file: Value = serde_json::from_str(file).unwrap();
    for case in file["cases"].as_array().unwrap() {
        let mut chat = Chat::new(messages.clone())
            .generation_prompt(case["prompt"].as_bool().unwrap())
            .set("bos_token", "<s>".into())
            .set("eos_token", "</s>".into())
            .set("enable_thinking", false.into())
            .now(file["now"].as_i64().unwrap());
        if case["tools"].as_bool().unwrap() {
            chat = chat.tools(tools.clone());
        }
        let template = Template::new(case["template"].as_str().unwrap()).unwrap();
        let text = template.render(&chat).map_err(|e| format!("{}: {e}", case["name"])).unwrap();
        assert_eq!(text, case["expected"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn a_refusal_has_the_message_of_the_template() {
    let refused =
        render("{% if messages[0].role == 'user' %}{{ raise_exception('no users, please') }}{% endif %}");
    assert_eq!(refused, Err(Error::Refused("no users, please".into())));
}

#[test]
fn errors_name_the_line() {
    let wrong = Template::new("a\n{% if %}").unwrap_err().to_string();
    assert!(wrong.starts_with("chat template: ") && wrong.ends_with("(line 2)"), "{wrong}");
    let wrong = render("\n\n{{ messages[5].content }}").unwrap_err().to_string();
    assert!(wrong.contains("messages[5]") && wrong.ends_with("(line 3)"), "{wrong}");
    assert!(render("{{ nothing() }}").is_err());
    assert!(render("{{ messages[0].content.no_such_method() }}").is_err());
}

#[test]
fn a_template_that_writes_the_date_needs_the_time() {
    let wrong = render("{{ strftime_now('%Y') }}").unwrap_err().to_string();
    assert!(wrong.contains("no time was given"), "{wrong}");
    let chat = Chat::of(&[]).now(951_782_400);
    let date = Template::new("{{ strftime_now('%Y-%m-%d %a') }}").unwrap();
    assert_eq!(date.render(&chat).unwrap(), "2000-02-29 Tue");
    let before = Chat::of(&[]).now(-1);
    assert_eq!(date.render(&before).unwrap(), "1969-12-31 Wed");
    for now in [i64::MIN, i64::MAX] {
        assert!(date.render(&Chat::of(&[]).now(now)).is_ok());
    }
    assert!(Template::new("{{ strftime_now('%Q') }}").unwrap().render(&chat).is_err());
}

#[test]
fn a_template_is_found_in_the_configuration() {
    let chat = Chat::of(&[]);
    let one = Template::from_config(&json!({"chat_template": "one"}), None).unwrap();
    assert_eq!(one.render(&chat).unwrap(), "one");
    let list = json!({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]});
    assert_eq!(Template::from_config(&list, None).unwrap().render(&chat).unwrap(), "d");
    assert_eq!(Template::from_config(&list, Some("tool_use")).unwrap().render(&chat).unwrap(), "t");
    let wrong = Template::from_config(&list, Some("rag")).unwrap_err().to_string();
    assert!(wrong.contains("\"rag\"") && wrong.contains("default, tool_use"), "{wrong}");
}

#[test]
fn without_a_template_there_is_an_error_that_says_so() {
    assert_eq!(Template::from_config(&json!({}), None).unwrap_err(), Error::NoTemplate);
    assert_eq!(Template::from_config(&json!({"chat_template": null}), None).unwrap_err(), Error::NoTemplate);
    assert_eq!(Template::from_gguf(&bpe512_metadata("qwen2")).unwrap_err(), Error::NoTemplate);
    assert!(Error::NoTemplate.to_string().contains("no chat template"));
    assert!(Template::from_config(&json!({"chat_template": 3}), None).is_err());
}

#[test]
fn a_template_is_found_in_the_metadata_of_gguf() {
    let mut metadata = bpe512_metadata("qwen2");
    metadata.insert("tokenizer.chat_template".into(), "{{ bos_token }}{{ messages[0].content }}".into());
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let chat = Chat::of(&[("user", "Hi")]).tokens(&tokenizer);
    assert_eq!(Template::from_gguf(&metadata).unwrap().render(&chat).unwrap(), "<s>Hi");
}

#[test]
fn special_tokens_of_the_tokenizer_are_variables() {
    let config = json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null});
    let extra = Extra { config: Some(&config), ..Extra::default() };
    let tokenizer = Tokenizer::from_json(BPE512.as_bytes(), &extra).unwrap();
    let template = Template::new("{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}").unwrap();
    assert_eq!(template.render(&Chat::of(&[]).tokens(&tokenizer)).unwrap(), "<s></s>False");
}

#[test]
fn json_keeps_the_order_of_its_keys() {
    let tools = Json::parse(r#"{"z": 1, "a": {"y": 2, "b": 3}}"#).unwrap();
    let template = Template::new("{{ tools | tojson }}").unwrap();
    let text = template.render(&Chat::of(&[]).tools(tools)).unwrap();
    assert_eq!(text, r#"{"z": 1, "a": {"y": 2, "b": 3}}"#);
    assert!(Json::parse("{").is_err());
}

#[test]
fn what_a_model_thought_goes_by_either_name() {
    let template = "{% for m in messages %}{{ m.thinking }}{{ m.reasoning_content }}\
        {{ m.content is defined }};{% endfor %}";
    let messages = json!([
        {"role": "assistant", "reasoning": "a", "content": null},
        {"role": "assistant", "thinking": "b"},
        {"role": "assistant", "reasoning_content": "c", "content": ""},
        {"role": "user"},
    ]);
    let text = Template::new(template).unwrap().render(&Chat::new(Json::from(&messages))).unwrap();
    assert_eq!(text, "aaFalse;bbFalse;ccTrue;False;");
}

#[test]
fn brackets_behind_values_are_not_lists() {
    let messages = json!([{"role": "user", "from": ["a", "b"], "in": {"or": [7]}}]);
    let render = |template: &str| Template::new(template)?.render(&Chat::new(Json::from(&messages)));
    let template = "{% set m = messages[0] %}{{ m.from[1] }}{{ m['from'][0] }}{{ m.in.or[0] }}\
        {{ (m.from)[0] }}{{ 'xy'[1] }}";
    assert_eq!(render(template).unwrap(), "ba7ay");
    let template =
        "{% for (a, b) in [(1, 2), (3, 4)] %}{{ a + b }}{% endfor %}{% set (x, y) = ('p', 'q') %}{{ x ~ y }}";
    assert_eq!(render(template).unwrap(), "37pq");
    let template =
        "{% macro f(a, b=(1, 2), c=[3]) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(0) }}{{ f(0, c=[{}]) }}";
    assert_eq!(render(template).unwrap(), "0(1, 2)[3]0(1, 2)[{}]");
    let template = "{% set x %}a{% endset %}{% set y = x == 'a' and not (x in ['b']) %}{{ y }}\
        {% if [] or () %}n{% endif %}";
    assert_eq!(render(template).unwrap(), "True");
    let template =
        "{% macro g() %}<{{ caller(1, [2]) }}>{% endmacro %}{% call(a, b) g() %}{{ a }}{{ b }}{% endcall %}";
    assert_eq!(render(template).unwrap(), "<1[2]>");
}

/// By jinja2 3.1.6.
#[test]
fn sums_and_what_is_joined_are_read_as_before() {
    let cases = [
        ("{{ 1 + 2 * 3 ~ 'a' ~ -4 - 5 if true else 6 }}", None),
        ("{{ 1 ~ 2 * 3 ~ 'a' ~ -4 }}", Some("16a-4")),
        ("{{ 'a' ~ true ~ none ~ 1e20 ~ [1, 'b'] ~ {'c': 2} }}", Some("aTrueNone1e+20[1, 'b']{'c': 2}")),
        ("{{ 'a' ~ 'b' is defined }}", Some("aTrue")),
        ("{{ 'b' in 'a' ~ 'b' and not 'c' in 'a' ~ 'b' }}", Some("True")),
        ("{{ [1, 2] * 2 + [3] }}", Some("[1, 2, 1, 2, 3]")),
        ("{{ (1, 2) * 2 }}", Some("(1, 2, 1, 2)")),
        ("{{ {'a': 1 + 2, 'b': 'x' ~ 'y'}['b'] ~ 'abc'[1:1 + 2] }}", Some("xybc")),
        ("{% set a, b = 1 + 2, 'x' ~ 3 %}{{ a ~ b }}", Some("3x3")),
        ("{% for i in [1] + [2] recursive %}{{ i ~ ',' }}{% endfor %}", Some("1,2,")),
        ("{% if 1 + 1 == 2 %}{{ namespace(a='x' ~ 1).a }}{% endif %}", Some("x1")),
        ("{% macro f(a=1 + 1, b='p' ~ 'q') %}{{ a ~ b }}{% endmacro %}{{ f(3 * 2) }}", Some("6pq")),
        ("{{ ', '.join(['a', 1, none]) }}", Some("a, 1, None")),
        (
            "{{ messages | join('-', attribute='role') ~ messages | join(attribute='content') }}",
            Some("userHi"),
        ),
        ("{{ 'hello'.index('l') }} {{ 'aBc'.swapcase() }} {{ 'a b  c' | wordcount }}", Some("2 AbC 3")),
        (
            "{{ 'ab'.center(5) }}|{{ 'abc'.center(6) }}|{{ 'ab'.ljust(4, '.') }}|{{ 'ab'.rjust(4) }}",
            Some("  ab | abc  |ab..|  ab"),
        ),
    ];
    for (template, expected) in cases {
        let text = render(template);
        match expected {
            Some(expected) => assert_eq!(text.as_deref(), Ok(expected), "{template}"),
            None => assert!(text.is_err(), "{template}: {text:?}"),
        }
    }
    assert!(render("{{ 'hello'.index('z') }}").is_err());
}
