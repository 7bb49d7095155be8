//! What goes wrong is said, harms no one else, and is counted.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use serve::{batch, http};

use super::server::{Server, asks, model};

/// Nothing is held, and every request has its outcome.
fn rests(server: &Server) -> bool {
    let ended = server.metric("tenon_request_success_total");
    server.metric("tenon_requests_accepted_total") == ended
        && server.metric("tenon_num_requests_running") == 0.0
}

#[test]
fn what_is_no_request_is_refused_in_the_shape_of_the_api() {
    let server = Server::usual();
    let chat = "/v1/chat/completions";
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "",
        "{",
        "[]",
        "7",
        r#"{"messages": [], "messages": []}"#,
        r#"{"messages": "x"}"#,
        r#"{"messages": []}"#,
        r#"{"messages": [{"content": "x"}]}"#,
        r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#,
        r#"{"messages": [{"role": "user", "content": "\ud800"}]}"#,
        &deep,
    ];
    for body in bodies {
        let answer = server.send(chat, body, None);
        assert_eq!(answer.status, 400, "{body:.60}: {}", answer.body);
        assert_eq!(answer.body["error"]["type"], "invalid_request_error", "{}", answer.body);
        assert!(answer.body["error"]["message"].is_string() && answer.body["error"].get("param").is_some());
    }
    let wrong = [
        ("temperature", json!(1e9)),
        ("temperature", json!("hot")),
        ("top_p", json!(-1)),
        ("n", json!(1_000_000)),
        ("n", json!(0)),
        ("max_tokens", json!(-1)),
        ("max_tokens", json!(100_000)),
        ("logit_bias", json!({ "5": 1000 })),
        ("logit_bias", json!({ "99999999": 1 })),
        ("logit_bias", json!({ "x": 1 })),
        ("stop", json!([""])),
        ("top_logprobs", json!(3)),
        ("stream", json!("yes")),
        ("tools", json!([])),
        ("nonsense", json!(1)),
    ];
    for (name, value) in wrong {
        let mut body = asks("Hello");
        body[name] = value;
        let answer = server.post(chat, &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    let long = json!({ "prompt": "word ".repeat(300), "max_tokens": 1 });
    let answer = server.post("/v1/completions", &long);
    assert!(answer.status == 400 && answer.body.to_string().contains("256"), "{}", answer.body);
    for model in ["../../etc/passwd", "other", "a\0b"] {
        let answer =
            server.post(chat, &json!({ "model": model, "messages": [{ "role": "user", "content": "x" }] }));
        assert_eq!((answer.status, &answer.body["error"]["code"]), (404, &json!("model_not_found")));
        assert!(!answer.body.to_string().contains("passwd"), "{}", answer.body);
    }
    assert_eq!(server.get("/nothing").status, 404);
    assert_eq!(server.get(chat).status, 405);
    let mut large = asks("Hello");
    large["messages"][0]["content"] = "x".repeat(9 << 20).into();
    assert_eq!(server.post(chat, &large).status, 413);
    assert_eq!(server.metric("tenon_requests_accepted_total"), 0.0);
    assert_eq!(server.chat(&asks("What is the capital of France?")), "The capital of France is Paris.");
}

#[test]
fn keys_are_asked_for_on_every_path_but_those_that_watch() {
    let options =
        http::Options { keys: vec!["one".to_owned(), "two".to_owned()], ..http::Options::default() };
    let server = Server::start(model(256, 1), batch::Options::default(), options);
    for path in
        ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/nothing", "/v1/models"]
    {
        for key in [None, Some(""), Some("three"), Some("on"), Some("one1")] {
            let answer = server.send(path, "{}", key);
            assert_eq!(answer.status, 401, "{path} {key:?}");
            assert_eq!(answer.body["error"]["type"], "authentication_error");
        }
    }
    for path in ["/v1/models", "/metrics", "/nothing"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    assert_eq!((server.get("/health").status, server.get("/ready").status), (200, 200));
    let answer = server.send("/v1/chat/completions", &asks("Hello").to_string(), Some("two"));
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn clients_that_leave_give_their_room_back_within_a_step() {
    let server = Server::usual();
    let address = server.url.strip_prefix("http://").expect("an address").to_owned();
    for stream in [true, false] {
        for wait in [0, 5, 30] {
            let mut body = asks("What is Tenon?");
            body["stream"] = stream.into();
            body["ignore_eos"] = true.into();
            body["max_tokens"] = 200.into();
            let body = body.to_string();
            for _ in 0..6 {
                let mut client = TcpStream::connect(&address).expect("it listens");
                let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length:";
                write!(client, "{head} {}\r\n\r\n{body}", body.len()).expect("it reads");
                std::thread::sleep(Duration::from_millis(wait));
            }
            server.until("rest", rests);
        }
    }
    let (free, all) = (free(&server), server.metric("tenon_state_units"));
    assert!(all > 0.0 && free == all, "{free} of {all}");
    assert_eq!(server.chat(&asks("What is the capital of France?")), "The capital of France is Paris.");
}

/// Pages and slots that nobody uses.
fn free(server: &Server) -> f64 {
    let text = ureq::get(format!("{}/metrics", server.url)).call().expect("it answers");
    let text = text.into_body().read_to_string().expect("a text");
    let lines = text.lines().filter(|l| l.starts_with("tenon_state_units{") && !l.contains("state=\"used\""));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn who_finds_the_queue_full_is_told_to_come_again() {
    let batch = batch::Options { batch: 1, queue: 2, ..batch::Options::default() };
    let server = &Server::start(model(256, 1), batch, http::Options::default());
    let mut body = asks("What is Tenon?");
    body["ignore_eos"] = true.into();
    body["max_tokens"] = 150.into();
    let body = &body;
    let answers: Vec<(u16, bool)> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..12).map(|_| scope.spawn(move || server.post("/v1/chat/completions", body))).collect();
        clients.into_iter().map(|c| c.join().expect("an answer")).map(|a| (a.status, a.retry)).collect()
    });
    let (well, refused): (Vec<&(u16, bool)>, Vec<_>) = answers.iter().partition(|a| a.0 == 200);
    assert!(well.len() >= 2 && refused.iter().all(|a| **a == (429, true)), "{answers:?}");
    assert_eq!(server.metric("tenon_requests_refused_total"), refused.len() as f64);
    server.until("rest", rests);
}

#[test]
fn a_request_whose_time_is_over_is_given_up() {
    let server = Server::usual();
    let mut body = asks("What is Tenon?");
    body["timeout"] = 0.into();
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!((answer.status, &answer.body["error"]["type"]), (504, &json!("server_error")));
    server.until("rest", rests);
}

#[test]
fn a_server_that_is_told_to_end_answers_what_it_accepted() {
    let mut server = Server::usual();
    let mut body = asks("What is Tenon?");
    body["ignore_eos"] = true.into();
    body["max_tokens"] = 180.into();
    let want: Vec<String> = server.stream("/v1/chat/completions", &body).collect();
    let streams: Vec<_> = (0..3).map(|_| server.stream("/v1/chat/completions", &body)).collect();
    server.end();
    server.until("readiness that is gone", |s| s.get("/ready").status == 503);
    assert_eq!(server.get("/health").status, 200);
    let answer = server.post("/v1/chat/completions", &asks("Hello"));
    assert!(answer.status == 503 && answer.retry, "{}", answer.body);
    let text = |lines: &[String]| -> String {
        let objects = lines.iter().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        objects.filter_map(|o| o["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
    };
    for stream in streams {
        let lines: Vec<String> = stream.collect();
        assert_eq!((lines.last().map(String::as_str), text(&lines)), (Some("[DONE]"), text(&want)));
    }
    server.ended();
}

#[test]
fn connections_that_say_nothing_do_not_keep_a_server() {
    let mut server = Server::usual();
    let address = server.url.strip_prefix("http://").expect("an address").to_owned();
    let halves =
        ["", "POST /v1/completions HTT", "POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"];
    let open: Vec<TcpStream> = halves
        .iter()
        .map(|half| {
            let mut client = TcpStream::connect(&address).expect("it listens");
            client.write_all(half.as_bytes()).expect("it reads");
            client
        })
        .collect();
    assert_eq!(server.chat(&asks("What is the capital of France?")), "The capital of France is Paris.");
    server.end();
    server.ended();
    drop(open);
}

#[test]
fn what_takes_longer_than_a_server_waits_gets_an_error() {
    let options = http::Options { drain: Duration::ZERO, ..http::Options::default() };
    let mut server = Server::start(model(8192, 1), batch::Options::default(), options);
    let mut body = asks("What is Tenon?");
    body["ignore_eos"] = true.into();
    body["max_tokens"] = 8000.into();
    let mut stream = server.stream("/v1/chat/completions", &body);
    assert!(stream.next().is_some());
    server.end();
    let last = stream.last().expect("a last line");
    let last: Value = serde_json::from_str(&last).expect("an object");
    assert_eq!(last["error"]["type"], "server_error", "{last}");
    server.ended();
}
