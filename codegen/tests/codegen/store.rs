//! The kernels on disk: what is wrong with a file or the folder costs time, and is never seen otherwise.
#![allow(
    clippy::disallowed_methods,
    unsafe_code,
    reason = "a store is files; a limit is set for a process of the test's own"
)]

use crate::harness;

use std::process::Command;

use crate::harness::build::function;
use codegen::{Compiler, Store, Target};
use ir::Intrinsic;
use tensor::DType;

const F32: DType = DType::F32;

/// A compiler of its own over a folder.
fn storing(folder: &std::path::Path) -> Compiler {
    Compiler::new(Target::host()).storing(Store::open(folder, 1 << 20).ok())
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("a file").path()).collect();
    all.sort();
    all
}

#[test]
fn a_store_gives_what_was_kept_and_takes_whatever_is_wrong_for_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let prim = function(Intrinsic::Exp, F32);
    let made = storing(folder.path()).compile_prim(&prim).expect("compiles");
    let [file] = files(folder.path()).try_into().expect("one file");
    let whole = std::fs::read(&file).expect("it reads");

    // A miss would write the file anew, under another number.
    let number =
        |f: &std::path::Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(f).expect("there"));
    let before = number(&file);
    assert_eq!(storing(folder.path()).compile_prim(&prim).expect("compiles"), made);
    assert_eq!(number(&file), before);
    let other = function(Intrinsic::Log, F32);
    storing(folder.path()).compile_prim(&other).expect("compiles");
    let stranger = files(folder.path()).into_iter().find(|f| *f != file).expect("a second file");

    // Another kernel's file under this name, short files, changed bytes: each is a miss, mended by what is compiled.
    let wrong = |bytes: &[u8]| {
        std::fs::write(&file, bytes).expect("it writes");
        assert_eq!(storing(folder.path()).compile_prim(&prim).expect("compiles"), made);
        assert_eq!(std::fs::read(&file).expect("it reads"), whole, "written anew");
    };
    wrong(&std::fs::read(stranger).expect("it reads"));
    // The mark, the checksum, the key with its length, the description, the object.
    for at in [0, 7, 8, 11, 12, 13, 40, 400, whole.len() / 2, whole.len() - 1] {
        wrong(&whole[..at]);
        let mut changed = whole.clone();
        changed[at] ^= 1;
        wrong(&changed);
    }
    wrong(&[whole.as_slice(), &[0]].concat());
}

#[test]
fn processes_may_share_a_store_and_a_folder_that_takes_nothing_does_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let prim = function(Intrinsic::Tanh, F32);
    let made = Compiler::new(Target::host()).compile_prim(&prim).expect("compiles");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3 {
                    assert_eq!(storing(folder.path()).compile_prim(&prim).expect("compiles"), made);
                }
            });
        }
    });
    assert_eq!(files(folder.path()).len(), 1, "no drafts are left");

    // The name is taken by a folder: nothing can be renamed to it, as nothing can be written on a full disk.
    let [file] = files(folder.path()).try_into().expect("one file");
    std::fs::remove_file(&file).expect("it goes");
    std::fs::create_dir_all(file.join("full")).expect("a folder");
    assert_eq!(storing(folder.path()).compile_prim(&prim).expect("compiles"), made);
    assert_eq!(files(folder.path()), [file], "no drafts are left");
    assert!(Store::open(&folder.path().join("\0"), 1).is_err());
}

#[test]
fn a_store_is_pruned_and_one_that_others_can_write_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    for op in [Intrinsic::Exp, Intrinsic::Log, Intrinsic::Tanh] {
        storing(folder.path()).compile_prim(&function(op, F32)).expect("compiles");
    }
    let narrow = Compiler::new(Target::host()).storing(Store::open(folder.path(), 1).ok());
    narrow.compile_prim(&function(Intrinsic::Erf, F32)).expect("compiles");
    assert_eq!(files(folder.path()).len(), 1, "the oldest went before the newest came");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
    assert!(Store::open(folder.path(), 1).is_err());
}

/// What this process does instead of a test, if it is one of those that a test began.
fn role() -> Option<(String, std::path::PathBuf)> {
    let (role, folder) = (std::env::var("TENON_TEST_ROLE").ok()?, std::env::var_os("TENON_TEST_FOLDER")?);
    Some((role, folder.into()))
}

/// This test in a process of its own.
fn itself(test: &str, role: &str, folder: &std::path::Path) -> Command {
    let mut c = Command::new(std::env::current_exe().expect("a test is a program"));
    c.args(["--exact", test]).env("TENON_TEST_ROLE", role).env("TENON_TEST_FOLDER", folder);
    c.stdout(std::process::Stdio::null());
    c
}

#[test]
fn processes_write_read_and_damage_one_folder_and_each_gets_its_kernels() {
    const NAME: &str = "processes_write_read_and_damage_one_folder_and_each_gets_its_kernels";
    let prims = [Intrinsic::Neg, Intrinsic::Abs, Intrinsic::Sqrt].map(|o| function(o, F32));
    if let Some((role, folder)) = role() {
        let want = prims.each_ref().map(|p| Compiler::new(Target::host()).compile_prim(p).expect("compiles"));
        let mut random = harness::Numbers(role.parse().expect("a number"));
        for _ in 0..12 {
            for (p, want) in prims.iter().zip(&want) {
                assert_eq!(storing(&folder).compile_prim(p).expect("compiles"), *want);
            }
            // Files come and go meanwhile: each of these may fail.
            let there: Vec<_> = std::fs::read_dir(&folder).expect("it is there").flatten().collect();
            let Some(file) = there.get(random.next() as usize % there.len().max(1)) else { continue };
            let Ok(mut bytes) = std::fs::read(file.path()) else { continue };
            match (random.next() % 3, bytes.len()) {
                (_, 0) => {}
                (0, _) => drop(std::fs::remove_file(file.path())),
                (1, n) => drop(std::fs::write(file.path(), &bytes[..random.next() as usize % n])),
                (_, n) => {
                    bytes[random.next() as usize % n] ^= 1 << (random.next() % 8);
                    let _ = std::fs::write(file.path(), bytes);
                }
            }
        }
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let all: Vec<_> =
        (1..=3).map(|i| itself(NAME, &i.to_string(), folder.path()).spawn().expect("it begins")).collect();
    for mut process in all {
        assert!(process.wait().expect("it ends").success());
    }
    assert!(files(folder.path()).iter().all(|f| f.extension().is_some_and(|e| e == "kernel")), "no drafts");
}

#[test]
fn a_limit_on_files_does_not_end_who_meets_it() {
    const NAME: &str = "a_limit_on_files_does_not_end_who_meets_it";
    if let Some((_, folder)) = role() {
        let limit = libc::rlimit { rlim_cur: 1000, rlim_max: 1000 };
        // SAFETY: it reads what it is given.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        storing(&folder).compile_prim(&function(Intrinsic::Neg, F32)).expect("compiles");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let ended = itself(NAME, "limited", folder.path()).status().expect("it begins");
    assert!(ended.success(), "{ended}");
    assert!(files(folder.path()).is_empty(), "nothing fits");
}

#[test]
fn a_folder_that_vanishes_or_is_a_file_keeps_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let below = folder.path().join("kernels");
    let prim = function(Intrinsic::Neg, F32);
    let vanished = Store::open(&below, 1 << 20).ok();
    assert!(vanished.is_some());
    std::fs::remove_dir_all(&below).expect("it goes");
    let compiler = || Compiler::new(Target::host()).storing(vanished.clone());
    let made = compiler().compile_prim(&prim).expect("compiles");
    assert_eq!(compiler().compile_prim(&prim).expect("compiles"), made);
    std::fs::write(&below, "a file").expect("it writes");
    assert_eq!(compiler().compile_prim(&prim).expect("compiles"), made);
    assert!(Store::open(&below, 1 << 20).is_err());
}
