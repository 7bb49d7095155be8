//! The binary, run on files of its own.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a run said.
pub(crate) struct Said {
    pub(crate) exit: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// The codes of the diagnostics on stderr, in order.
    #[allow(dead_code, reason = "each test binary uses a part")]
    pub(crate) fn codes(&self) -> Vec<&str> {
        let code = |l: &'_ str| {
            let rest = l.strip_prefix("error[").or_else(|| l.strip_prefix("warning["))?;
            rest.split_once(']').map(|c| c.0.len())
        };
        self.stderr
            .lines()
            .filter_map(|l| code(l).map(|n| &l[l.find('[').map_or(0, |i| i + 1)..][..n]))
            .collect()
    }
}

/// What a run of the binary that ends well prints.
pub(crate) fn shown(files: &[(&str, String)], args: &[&str]) -> String {
    let said = run(files, args);
    assert_eq!(said.exit, Some(0), "{}", said.stderr);
    said.stdout
}

/// Runs the binary in a folder that holds these files.
pub(crate) fn run(files: &[(&str, String)], args: &[&str]) -> Said {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("tenon-cli-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
    let out = command.current_dir(&folder).args(args).output().expect("it runs");
    std::fs::remove_dir_all(&folder).expect("it was made above");
    said(out)
}

/// What a process said.
pub(crate) fn said(out: std::process::Output) -> Said {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { exit: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}
