//! What is answered depends on the request, and on nothing beside it.

use serde_json::{Value, json};
use serve::{batch, http};
use tenon::llm::{Request, Sampling};

use super::server::{ALONE, Server, asks, model};

const QUESTIONS: [&str; 5] =
    ["What is the capital of France?", "What is Tenon?", "Hello", "Who are you?", "What is a mortise?"];

/// What the model says when nothing else runs; of so many tokens, whether it ends or not, if that is said.
fn alone(question: &str, seed: u64, temperature: f32, tokens: Option<usize>) -> String {
    let prompt = ALONE.conversation(&[("user", question)]).expect("tokens");
    let sampling = Sampling { temperature, seed, ..Sampling::default() };
    let request = Request {
        sampling,
        max_tokens: tokens.or(Some(40)),
        ignore_end: tokens.is_some(),
        ..Request::default()
    };
    ALONE.generate(&prompt, &request, &mut |_| {}).expect("it answers").text
}

fn joined(lines: impl Iterator<Item = String>, of: impl Fn(&Value) -> Option<String>) -> String {
    let all: Vec<String> = lines.collect();
    assert_eq!(all.last().map(String::as_str), Some("[DONE]"), "{all:?}");
    let objects = all[..all.len() - 1].iter().map(|l| serde_json::from_str(l).expect("an object"));
    objects.filter_map(|o: Value| of(&o)).collect()
}

#[test]
fn a_stream_says_what_an_answer_says_and_what_the_model_says_alone() {
    let server = Server::usual();
    for question in QUESTIONS {
        let want = alone(question, 0, 0.0, None);
        assert_eq!(server.chat(&asks(question)), want);
        let delta = |o: &Value| o["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
        assert_eq!(joined(server.stream("/v1/chat/completions", &asks(question)), delta), want);
    }
    let body = json!({ "prompt": "The capital of", "max_tokens": 12, "temperature": 0, "ignore_eos": true });
    let whole = server.post("/v1/completions", &body).body;
    let text = |o: &Value| o["choices"][0]["text"].as_str().map(str::to_owned);
    assert_eq!(Some(joined(server.stream("/v1/completions", &body), text)), text(&whole));
    assert_eq!(whole["usage"]["completion_tokens"], 12);
}

#[test]
fn many_at_once_say_what_each_says_alone_though_room_is_short() {
    // A page more than one answer has in the end: those that run together take them from one another.
    let batch = batch::Options { batch: 4, ..batch::Options::default() };
    let server = &Server::start(model(192, 1), batch, http::Options::default());
    let temperatures = [0.0_f32, 0.9];
    std::thread::scope(|scope| {
        let asked = (0..4).flat_map(|k| QUESTIONS.map(|q| (k, q)));
        let all: Vec<_> = asked
            .map(|(k, question)| {
                let temperature = temperatures[k % 2];
                let mut body = asks(question);
                body["temperature"] = temperature.into();
                body["seed"] = k.into();
                body["ignore_eos"] = true.into();
                body["max_tokens"] = 140.into();
                let want = alone(question, k as u64, temperature, Some(140));
                scope.spawn(move || assert_eq!(server.chat(&body), want))
            })
            .collect();
        all.into_iter().for_each(|t| t.join().expect("it is the same"));
    });
    assert_eq!(server.metric("tenon_requests_accepted_total"), 20.0);
    assert_eq!(server.metric("tenon_request_success_total"), 20.0);
    assert!(server.metric("tenon_num_preemptions_total") > 0.0);
}

#[test]
fn what_was_said_before_is_not_computed_again() {
    let server = Server::usual();
    let words = "a tenon holds a mortise and ".repeat(12);
    let body = json!({ "prompt": words, "max_tokens": 4, "temperature": 0 });
    let first = server.post("/v1/completions", &body).body;
    let again = server.post("/v1/completions", &body).body;
    assert_eq!(first["choices"], again["choices"]);
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let cached = again["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number");
    assert!(cached >= 64 && cached.is_multiple_of(64), "{again}");
}

#[test]
fn each_prompt_is_counted_and_once() {
    let server = Server::usual();
    let ids = |text: &str| {
        let body = json!({ "content": text, "add_special": true });
        server.post("/tokenize", &body).body["count"].as_u64().expect("a number")
    };
    let (a, b) = ("What is Tenon?", "Hello to you all");
    let mut body = json!({ "prompt": [a, b], "max_tokens": 3, "n": 2, "temperature": 0, "ignore_eos": true });
    let whole = server.post("/v1/completions", &body).body;
    let choices = whole["choices"].as_array().expect("answers");
    assert!(choices.len() == 4 && choices[0]["text"] == choices[1]["text"], "{whole}");
    assert_eq!(
        (&whole["usage"]["prompt_tokens"], &whole["usage"]["completion_tokens"]),
        (&json!(ids(a) + ids(b)), &json!(12))
    );
    body["stream_options"] = json!({ "include_usage": true });
    let lines: Vec<String> = server.stream("/v1/completions", &body).collect();
    let last: Value = serde_json::from_str(&lines[lines.len() - 2]).expect("an object");
    assert_eq!(last["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"], "{last}");
}

#[test]
fn penalties_of_an_answer_are_for_what_it_says_itself() {
    let server = Server::usual();
    // The words of the question cost nothing, said once.
    let mut body = asks("What is the capital of France?");
    body["presence_penalty"] = 2.0.into();
    let said = server.chat(&body);
    assert!(said.starts_with("The capital of France is"), "{said}");
    body["max_tokens"] = 60.into();
    body["ignore_eos"] = true.into();
    body["frequency_penalty"] = 2.0.into();
    assert_ne!(server.chat(&body), {
        body["frequency_penalty"] = 0.0.into();
        body["presence_penalty"] = 0.0.into();
        server.chat(&body)
    });
}

#[test]
fn answers_have_what_was_asked_for() {
    let server = Server::usual();
    let mut body = asks("What is Tenon?");
    body["n"] = 2.into();
    body["logprobs"] = true.into();
    body["top_logprobs"] = 3.into();
    body["max_tokens"] = 5.into();
    let made = server.post("/v1/chat/completions", &body).body;
    assert_eq!(made["choices"].as_array().map(Vec::len), Some(2));
    for choice in made["choices"].as_array().expect("answers") {
        let tokens = choice["logprobs"]["content"].as_array().expect("tokens");
        assert_eq!(tokens.len(), 5);
        let bytes = tokens.iter().flat_map(|t| t["bytes"].as_array().expect("bytes"));
        let bytes: Vec<u8> = bytes.map(|b| b.as_u64().expect("a byte") as u8).collect();
        assert_eq!(choice["message"]["content"].as_str().map(str::as_bytes), Some(&bytes[..]));
        assert!(tokens.iter().all(|t| t["top_logprobs"].as_array().map(Vec::len) == Some(3)));
        assert_eq!(choice["finish_reason"], "length");
    }
    assert_eq!(made["usage"]["completion_tokens"], 10);
    // A token that may not be, and a text that ends it.
    let first = made["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["token"].clone();
    let ids = server.post("/tokenize", &json!({ "content": first })).body;
    let mut body = asks("What is Tenon?");
    body["logit_bias"] = json!({ ids["tokens"][0].to_string(): -100 });
    assert!(!server.chat(&body).starts_with(first.as_str().expect("a text")));
    let mut body = asks("What is the capital of France?");
    body["stop"] = "France".into();
    assert_eq!(server.chat(&body), "The capital of ");
    let stopped = server.post("/v1/chat/completions", &body).body;
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    // Texts and tokens.
    let text = "Über die Brücke, 木.";
    let tokens = server.post("/tokenize", &json!({ "content": text })).body;
    assert_eq!(server.post("/detokenize", &json!({ "tokens": tokens["tokens"] })).body["content"], text);
    let prompt = server.post("/apply-template", &json!({ "messages": asks("Hello")["messages"] })).body;
    assert!(prompt["prompt"].as_str().is_some_and(|p| p.contains("Hello")), "{prompt}");
}
