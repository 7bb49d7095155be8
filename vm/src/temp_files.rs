//! Temporary files that are being written beside the one they will replace: `NAME.PID.tmp`.
//!
//! A writer that is killed leaves its draft; the next one that writes the same name removes those whose writer no
//! longer lives. A system that does not tell which processes live keeps them.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::{fs, process};

/// The draft of this process for a name.
pub(crate) fn name(of: &OsStr) -> OsString {
    let mut name = of.to_owned();
    name.push(format!(".{}.tmp", process::id()));
    name
}

/// Removes drafts of a file that nobody will finish. What cannot be read or removed stays: it is in nobody's way.
pub(crate) fn sweep(path: &Path) {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        if found.to_str().and_then(|f| writer(f, name)).is_some_and(|pid| !lives(pid)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The process whose draft of `name` a file is.
fn writer(file: &str, name: &str) -> Option<u32> {
    let pid = file.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".tmp")?;
    // A number as it is written, and nothing that only reads as one.
    pid.parse().ok().filter(|n: &u32| n.to_string() == pid)
}

/// False only where the system says that there is no such process.
pub fn lives(pid: u32) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_of_the_dead_are_removed_and_no_others() {
        let folder = std::env::temp_dir().join(format!("tenon-drafts-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a.tnx");
        // Above the largest number that Linux gives a process.
        let dead = 4_194_305;
        let mine = name(OsStr::new("a.tnx"));
        let stays = [
            "a.tnx".to_owned(),
            format!("b.tnx.{dead}.tmp"),
            "a.tnx.x.tmp".to_owned(),
            format!("a.tnx.0{dead}.tmp"),
        ];
        for file in stays.iter().map(OsString::from).chain([mine.clone()]) {
            fs::write(folder.join(file), "").expect("a file");
        }
        let left = folder.join(format!("a.tnx.{dead}.tmp"));
        fs::write(&left, "half of it").expect("a file");
        sweep(&path);
        assert_eq!(left.exists(), !Path::new("/proc/self").exists());
        assert!(stays.iter().map(OsString::from).chain([mine]).all(|f| folder.join(f).exists()));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
