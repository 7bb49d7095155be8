//! What is downloaded, and what becomes of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use hub::{Error, Hub, Progress};
use import::Checkpoint;

use super::says;
use super::server::{Server, etag};
use super::write::{index, safetensors, save, some_bytes};

const INDEX: &str = "model.safetensors.index.json";

fn pulled(server: &Server, pattern: Option<&str>, into: &Path) -> Result<Vec<String>, Error> {
    let paths = Hub::at(&server.address, None).pull("org/model", None, pattern, into, &|_| {})?;
    Ok(paths
        .iter()
        .map(|p| p.file_name().expect("files have names").to_string_lossy().into_owned())
        .collect())
}

fn refused(server: &Server, pattern: Option<&str>, into: &Path) -> String {
    pulled(server, pattern, into).expect_err("it must not work").to_string()
}

/// The names and bytes of a folder's files, those in folders left out.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        std::fs::read_dir(folder).expect("it is a folder").map(|e| e.expect("it can be read").path());
    let files = entries.filter(|p| p.is_file());
    files
        .map(|p| {
            (
                p.file_name().expect("it has one").to_string_lossy().into_owned(),
                std::fs::read(&p).expect("it is a file"),
            )
        })
        .collect()
}

fn shard(name: &str, len: usize) -> Vec<u8> {
    safetensors(&[(name, "U8", &[len as i64], &some_bytes(len))])
}

/// A repository in shards, with files that nobody wants.
fn sharded() -> Server {
    let index =
        index(&[("a", "model-00001-of-00002.safetensors"), ("b", "model-00002-of-00002.safetensors")]);
    Server::new(&[
        ("README.md", b"# Model"),
        ("added_tokens.json", b""),
        ("config.json", br#"{"architectures": ["A"]}"#),
        ("consolidated.safetensors", &shard("a", 10)),
        ("model-00001-of-00002.safetensors", &shard("a", 70_000)),
        ("model-00002-of-00002.safetensors", &shard("b", 300)),
        (INDEX, index.as_bytes()),
        ("original/model.safetensors", &shard("a", 10)),
        ("pytorch_model.bin", b"PK"),
        ("tokenizer.json", b"{}"),
    ])
}

/// A repository with two models in GGUF, one of them in parts and in a folder.
fn ggufs() -> Server {
    Server::new(&[
        ("config.json", b"{}"),
        ("m.Q4_K_M.gguf", b"GGUF 4"),
        ("Q8_0/m-00001-of-00002.gguf", b"GGUF 8, 1"),
        ("Q8_0/m-00002-of-00002.gguf", b"GGUF 8, 2"),
        ("Q6_K/m-00001-of-00002.gguf", b"GGUF 6, 1"),
    ])
}

#[test]
fn a_checkpoint_is_pulled_and_kept_as_long_as_it_does_not_change() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    let into = folder.path().join("deep/er");
    let seen = RefCell::new(BTreeMap::new());
    let watch = |p: Progress<'_>| {
        assert!(p.done <= p.total && p.number <= p.files);
        seen.borrow_mut().insert(p.file.to_owned(), (p.done, p.total));
    };
    let paths =
        Hub::at(&server.address, None).pull("org/model", None, None, &into, &watch).expect("it works");
    let want = [
        "added_tokens.json",
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        INDEX,
        "tokenizer.json",
    ];
    let here = contents(&into);
    assert_eq!(here.keys().collect::<Vec<_>>(), want);
    here.iter().for_each(|(name, bytes)| assert_eq!(*bytes, server.state().files[name], "{name}"));
    assert_eq!(paths.len(), want.len());
    let seen = seen.into_inner();
    want.iter()
        .for_each(|name| assert_eq!(seen[*name], (here[*name].len() as u64, here[*name].len() as u64)));
    assert_eq!(contents(&into.join(".pull")).keys().collect::<Vec<_>>(), ["lock", "record.json"]);
    assert_eq!(std::fs::read_dir(into.join(".pull")).expect("a folder").count(), 2);
    let c = Checkpoint::open(&into).expect("it is whole");
    assert_eq!((c.classes(), c.tensors().len()), (vec!["A".to_owned()], 2));
    // Nothing is new.
    server.asked();
    pulled(&server, None, &into).expect("it works again");
    assert_eq!(server.asked(), ["/api/models/org/model/revision/main?blobs=true "]);
    // One file has changed, and one was lost.
    server.state().commit = "decade".into();
    server.state().files.insert("tokenizer.json".into(), b"[]".to_vec());
    std::fs::remove_file(into.join("config.json")).expect("it is there");
    pulled(&server, None, &into).expect("it works again");
    let asked = server.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    says(&asked.join("\n"), &["resolve/decade/tokenizer.json", "resolve/decade/config.json"]);
    assert_eq!(contents(&into)["tokenizer.json"], b"[]");
}

#[test]
fn what_the_repository_has_no_longer_is_taken_away() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    pulled(&server, None, folder.path()).expect("it works");
    save(&folder.path().join("notes.txt"), "mine");
    let mut state = server.state();
    state.files.retain(|name, _| !name.contains("-of-") && name != INDEX);
    state.files.insert("model.safetensors".into(), shard("a", 5));
    drop(state);
    // While the new weights are on their way the folder is as it was.
    server.state().cuts.extend([50, 0, 0]);
    refused(&server, None, folder.path());
    assert_eq!(Checkpoint::open(folder.path()).expect("it is whole").tensors().len(), 2);
    pulled(&server, None, folder.path()).expect("it works");
    let want = ["added_tokens.json", "config.json", "model.safetensors", "notes.txt", "tokenizer.json"];
    assert_eq!(contents(folder.path()).keys().collect::<Vec<_>>(), want);
    let c = Checkpoint::open(folder.path()).expect("it is whole");
    assert_eq!(c.tensors()["a"].shape(), [5]);
}

#[test]
fn what_was_cut_off_is_continued_and_never_looks_complete() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    server.state().files.remove("added_tokens.json");
    let name = "model-00001-of-00002.safetensors";
    // Config, tokenizer and index come whole; then the hub hangs up, four times.
    server.state().cuts.extend([usize::MAX, usize::MAX, usize::MAX, 20_000, 10_000, 0, 5_000]);
    let e = refused(&server, None, folder.path());
    says(&e, &["org/model: ", name]);
    assert!(contents(folder.path()).is_empty());
    let text = Checkpoint::open(folder.path()).expect_err("it is not whole").to_string();
    says(&text, &["neither .safetensors nor"]);
    let asked = server.asked().join("\n");
    says(&asked, &["safetensors bytes=0-\n", "bytes=20000-", "bytes=30000-"]);
    pulled(&server, None, folder.path()).expect("it goes on");
    // What was complete is not asked for again.
    let asked = server.asked();
    assert_eq!(asked.len(), 4, "{asked:?}");
    says(
        &asked.join("\n"),
        &["00001-of-00002.safetensors bytes=30000-", "bytes=35000-", "00002-of-00002.safetensors"],
    );
    assert_eq!(contents(folder.path())[name], server.state().files[name]);
}

#[test]
fn of_sentence_transformers_the_files_of_modules_come_in_their_folders() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    let more =
        ["modules.json", "sentence_bert_config.json", "1_Pooling/config.json", "2_Normalize/config.json"];
    for name in more.iter().chain(&["onnx/config.json", "1_Pooling/README.md", "x_Pooling/config.json"]) {
        server.state().files.insert((*name).to_owned(), name.as_bytes().to_vec());
    }
    pulled(&server, None, folder.path()).expect("it works");
    for name in more {
        assert_eq!(std::fs::read(folder.path().join(name)).expect("it is there"), name.as_bytes());
    }
    let folders = |f: &Path| {
        let all = std::fs::read_dir(f).expect("a folder").map(|e| e.expect("it can be read").path());
        all.filter(|p| p.is_dir()).count()
    };
    assert_eq!(folders(folder.path()), 3);
    // They are kept, and taken away, as others are.
    server.asked();
    pulled(&server, None, folder.path()).expect("it works again");
    assert_eq!(server.asked().len(), 1);
    server.state().files.remove("2_Normalize/config.json");
    pulled(&server, None, folder.path()).expect("it works again");
    assert!(!folder.path().join("2_Normalize/config.json").exists());
    assert_eq!(contents(&folder.path().join("1_Pooling"))["config.json"], b"1_Pooling/config.json");
}

#[test]
fn a_token_is_told_to_no_other_host() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    let other = Server::new(&[]);
    other.state().files.clone_from(&server.state().files);
    server.state().token = Some("secret".into());
    server.state().elsewhere = Some(other.address.clone());
    let hub = Hub::at(&server.address, Some("secret"));
    hub.pull("org/model", None, None, folder.path(), &|_| {}).expect("the files come from the other");
    let here = contents(folder.path());
    here.iter().for_each(|(name, bytes)| assert_eq!(*bytes, server.state().files[name], "{name}"));
    assert_eq!(server.state().told, [true; 6]);
    assert_eq!(other.state().told, [false; 5]);
    // A redirection within the endpoint's host is told it.
    server.state().elsewhere = None;
    server.state().redirects = true;
    let again = tempfile::tempdir().expect("a folder");
    hub.pull("org/model", None, None, again.path(), &|_| {}).expect("the token goes along");
}

#[test]
fn a_hub_that_ignores_what_part_is_asked_for_is_asked_again_for_the_whole() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    server.state().ignores_ranges = true;
    server.state().redirects = true;
    server.state().cuts.extend([usize::MAX, usize::MAX, usize::MAX, 20_000]);
    pulled(&server, None, folder.path()).expect("it works in the end");
    let here = contents(folder.path());
    here.iter().for_each(|(name, bytes)| assert_eq!(*bytes, server.state().files[name], "{name}"));
}

#[test]
fn what_was_whole_but_not_yet_renamed_does_no_harm() {
    let (server, folder) = (ggufs(), tempfile::tempdir().expect("a folder"));
    let parts = folder.path().join(".pull/parts").join(etag(b"GGUF 4"));
    std::fs::create_dir_all(&parts).expect("the folder is writable");
    save(&parts.join("m.Q4_K_M.gguf"), "other!");
    pulled(&server, Some("*Q4*"), folder.path()).expect("it works");
    assert_eq!(contents(folder.path())["m.Q4_K_M.gguf"], b"GGUF 4");
}

#[test]
fn files_that_came_from_elsewhere_are_never_replaced() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    save(&folder.path().join("config.json"), "mine");
    says(&refused(&server, None, folder.path()), &["config.json: is there, and did not come from org/model"]);
    assert_eq!(contents(folder.path())["config.json"], b"mine");
    std::fs::remove_file(folder.path().join("config.json")).expect("it is there");
    pulled(&server, None, folder.path()).expect("it works");
    let other = Hub::at(&server.address, None).pull("org/other", None, None, folder.path(), &|_| {});
    let e = other.expect_err("it is another's").to_string();
    says(&e, &[".pull: the folder is filled from org/model, not from org/other"]);
}

#[test]
fn of_several_models_in_gguf_a_pattern_says_which() {
    let (server, folder) = (ggufs(), tempfile::tempdir().expect("a folder"));
    let into = |n: usize| folder.path().join(n.to_string());
    // Of those in the repository's own folder there is one.
    assert_eq!(pulled(&server, None, &into(0)).expect("it works"), ["config.json", "m.Q4_K_M.gguf"]);
    let names = ["config.json", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    assert_eq!(pulled(&server, Some("Q8_0/*"), &into(1)).expect("it works"), names);
    assert_eq!(contents(&into(1))["m-00002-of-00002.gguf"], b"GGUF 8, 2");
    server.state().files.insert("m.Q5_K_M.gguf".into(), b"GGUF 5".to_vec());
    let e = refused(&server, None, &into(2));
    says(&e, &["org/model: holds several models", "m.Q4_K_M.gguf", "Q8_0/m-00001-of-00002.gguf"]);
    let e = refused(&server, Some("*Q2*"), &into(3));
    says(&e, &["the pattern `*Q2*` fits no weights; there are ", "m.Q5_K_M.gguf"]);
    says(
        &refused(&server, Some("*00001-of*"), &into(4)),
        &["several files of the name m-00001-of-00002.gguf"],
    );
    server.state().files.retain(|name, _| name == "config.json");
    says(&refused(&server, None, &into(5)), &["holds neither .safetensors nor .gguf files"]);
}

#[test]
fn what_the_hub_does_not_give_is_said() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    let hub = Hub::at(&server.address, None);
    let asked = |repo: &str, revision: Option<&str>| {
        hub.pull(repo, revision, None, folder.path(), &|_| {}).expect_err("it must not work").to_string()
    };
    says(&asked("org/model", Some("v9")), &["org/model: ", "404", "it has no `v9`"]);
    for repo in ["", "/", "org/", "../x", "a/b/c", "org/mo del", "org/model?x"] {
        says(&asked(repo, None), &["is no name of a repository"]);
    }
    for revision in ["", "..", "a/../b", "a b", "x?y"] {
        says(&asked("org/model", Some(revision)), &["is no branch, tag or commit"]);
    }
    server.state().token = Some("secret".into());
    says(&asked("org/model", None), &["401", "HF_TOKEN may hold a token"]);
    let hub = Hub::at(&server.address, Some("secret"));
    hub.pull("org/model", Some("pr/1"), None, folder.path(), &|_| {}).expect("who says the token is let in");
    let nobody = Hub::at("http://127.0.0.1:1", None);
    let e = nobody.pull("org/model", None, None, folder.path(), &|_| {}).expect_err("nobody is there");
    says(&e.to_string(), &["org/model: "]);
}

#[test]
fn names_from_the_hub_lead_nowhere_else() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    let into = folder.path().join("into");
    server.state().blob = Some("../../../../escaped".into());
    says(&refused(&server, None, &into), &["`../../../../escaped` is no name of contents"]);
    server.state().blob = None;
    server.state().commit = "../..".into();
    says(&refused(&server, None, &into), &["`../..` is no commit"]);
    server.state().commit = "c0ffee".into();
    server.state().files.insert("../x.safetensors".into(), b"x".to_vec());
    says(&refused(&server, Some("*x.safetensors"), &into), &["fits no weights"]);
    let text = index(&[("a", "../x.safetensors")]);
    server.state().files.insert(INDEX.into(), text.into_bytes());
    says(&refused(&server, None, &into), &["names `../x.safetensors`, which is not there"]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn names_of_a_record_lead_nowhere_else() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    save(&folder.path().join("mine"), "mine");
    let into = folder.path().join("into");
    std::fs::create_dir_all(into.join(".pull")).expect("the folder is writable");
    save(&into.join(".pull/record.json"), r#"{"repo": "org/model", "files": {"../mine": "x"}}"#);
    says(&refused(&server, None, &into), &["record.json: `../mine` is no name of a file"]);
    assert!(folder.path().join("mine").exists());
    save(&into.join(".pull/record.json"), "{");
    says(&refused(&server, None, &into), &["record.json: "]);
}

#[test]
fn a_folder_is_filled_by_one_call_at_a_time() {
    let (server, folder) = (sharded(), tempfile::tempdir().expect("a folder"));
    let hub = Hub::at(&server.address, None);
    let meanwhile = |_: Progress<'_>| {
        says(&refused(&server, None, folder.path()), &["another download into this folder goes on"]);
    };
    hub.pull("org/model", None, None, folder.path(), &meanwhile).expect("it was first");
    pulled(&server, None, folder.path()).expect("it has ended");
}

#[test]
fn a_list_of_files_without_sizes_is_enough() {
    let (server, folder) = (ggufs(), tempfile::tempdir().expect("a folder"));
    server.state().terse = true;
    for commit in ["c0ffee", "decade"] {
        server.state().commit = commit.into();
        pulled(&server, None, folder.path()).expect("it works");
        assert_eq!(contents(folder.path())["m.Q4_K_M.gguf"], b"GGUF 4");
        // Another commit may hold other contents, so they are asked for.
        assert_eq!(server.asked().len(), 3);
        pulled(&server, None, folder.path()).expect("it works");
        assert_eq!(server.asked().len(), 1);
    }
}

/// The variable that makes the test below the process that it starts.
const INTO: &str = "TENON_TEST_PULL_INTO";

#[test]
fn the_environment_says_which_hub_and_who_asks() {
    if let Ok(into) = std::env::var(INTO) {
        Hub::from_env().pull("org/model", None, Some("*Q4*"), Path::new(&into), &|_| {}).expect("it works");
        return;
    }
    let (server, folder) = (ggufs(), tempfile::tempdir().expect("a folder"));
    server.state().token = Some("secret".into());
    let own = std::env::current_exe().expect("this is one");
    let status = Command::new(own)
        .args(["--exact", "pull::the_environment_says_which_hub_and_who_asks"])
        .env(INTO, folder.path())
        .env("HF_ENDPOINT", format!("{}/", server.address))
        .env("HF_TOKEN", "secret\n")
        .output()
        .expect("it starts");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    assert_eq!(contents(folder.path())["m.Q4_K_M.gguf"], b"GGUF 4");
}

/// The SHA-256 of `GGUF 4`.
const FOUR: &str = "d4bd6f0e5cf819e48c217ddcf5779c06e0d812a062298420a355405961822129";

#[test]
fn a_file_with_other_contents_than_the_hub_says_is_not_kept() {
    let (server, folder) = (ggufs(), tempfile::tempdir().expect("a folder"));
    let wrong = "0".repeat(64);
    let here = || contents(folder.path()).contains_key("m.Q4_K_M.gguf");
    // By the list of files, or by the answer.
    server.state().hashes.insert("m.Q4_K_M.gguf".into(), wrong.clone());
    says(
        &refused(&server, Some("*Q4*"), folder.path()),
        &["m.Q4_K_M.gguf: came with the SHA-256 ", FOUR, &wrong],
    );
    assert!(!here());
    server.state().hashes.clear();
    server.state().linked = Some(wrong.clone());
    says(&refused(&server, Some("*Q4*"), folder.path()), &["came with the SHA-256 ", &wrong]);
    assert!(!here());
    server.state().linked = Some(FOUR.into());
    server.state().hashes.insert("m.Q4_K_M.gguf".into(), FOUR.into());
    pulled(&server, Some("*Q4*"), folder.path()).expect("it is right");
    assert!(here());
}
