//! `tenon pull`, from a hub on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::program;

const FILES: [(&str, &str); 4] = [
    ("config.json", "{}"),
    ("m-Q4_0.gguf", "GGUF four"),
    ("m-Q8_0.gguf", "GGUF eight"),
    ("1_Pooling/config.json", "{\"pooling_mode\": \"mean\"}"),
];

/// A hub that has `org/model`; its address.
fn hub() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || listener.incoming().flatten().try_for_each(answer));
    address
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or("");
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let listed = |f: &(&str, &str)| format!("{{\"rfilename\": {:?}, \"size\": {}}}", f.0, f.1.len());
    let list = FILES.iter().map(listed).collect::<Vec<_>>().join(", ");
    let list = format!("{{\"sha\": \"c0ffee\", \"siblings\": [{list}]}}");
    let file = path.strip_prefix("/org/model/resolve/c0ffee/");
    let file = file.and_then(|name| FILES.iter().find(|f| f.0 == name)).map(|f| f.1);
    let listing = path.starts_with("/api/models/org/model/revision/main?").then_some(list.as_str());
    let (status, body) = file.or(listing).map_or(("404 Not Found", ""), |body| ("200 OK", body));
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn pull(folder: &std::path::Path, args: &[&str]) -> program::Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
    command.current_dir(folder).env("HF_ENDPOINT", hub()).env_remove("HF_TOKEN").arg("pull").args(args);
    program::said(command.output().expect("it runs"))
}

#[test]
fn a_checkpoint_comes_into_a_folder_of_its_name() {
    let folder = std::env::temp_dir().join(format!("tenon-cli-pull-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let said = pull(&folder, &["org/model", "--pattern", "*Q8*"]);
    assert_eq!((said.exit, said.stdout.as_str()), (Some(0), "model: 3 files, 36 bytes\n"), "{}", said.stderr);
    // No terminal: a line for each file.
    let lines: Vec<&str> = said.stderr.lines().collect();
    let want = [
        "config.json (1 of 3): 2 bytes",
        "1_Pooling/config.json (2 of 3): 24 bytes",
        "m-Q8_0.gguf (3 of 3): 10 bytes",
    ];
    assert_eq!(lines, want);
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_default();
    assert_eq!(read("model/m-Q8_0.gguf"), "GGUF eight");
    assert_eq!(read("model/1_Pooling/config.json"), FILES[3].1);
    // Into a folder that is said.
    let said = pull(&folder, &["org/model", "--pattern", "*Q4*", "-o", "deep/er"]);
    assert_eq!((said.exit, read("deep/er/m-Q4_0.gguf").as_str()), (Some(0), "GGUF four"), "{}", said.stderr);
    // Faults: what is wanted is not clear, or not there; or it is no name.
    let said = pull(&folder, &["org/model", "-o", "both"]);
    assert_eq!(said.exit, Some(1));
    assert!(said.stderr.contains("a pattern must say which: m-Q4_0.gguf, m-Q8_0.gguf"), "{}", said.stderr);
    let said = pull(&folder, &["org/other", "-o", "other"]);
    assert_eq!(said.exit, Some(1));
    assert!(said.stderr.contains("there is no such repository"), "{}", said.stderr);
    let said = pull(&folder, &["org/mo del"]);
    assert_eq!(said.exit, Some(2));
    assert!(said.stderr.contains("is no name of a repository"), "{}", said.stderr);
    std::fs::remove_dir_all(&folder).expect("it was made above");
}
