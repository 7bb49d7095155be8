//! How much memory a run may hold where `--memory-limit` does not say: what the machine has to give.
//!
//! A system that promises more than it has ends the process when the promise is called in. A budget ends the run with
//! an error that says where.

use std::path::Path;

/// Bytes that a run may hold on this machine, as far as it tells: three quarters of what is available. The rest is for
/// what a budget does not count, and for others.
pub(crate) fn budget() -> Option<usize> {
    available().map(|bytes| bytes / 4 * 3)
}

/// Bytes that this machine has to give now, or its group of processes may hold.
pub(crate) fn available() -> Option<usize> {
    const GROUP: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    let machine = read("/proc/meminfo").as_deref().and_then(of_machine);
    let group = GROUP.into_iter().filter_map(|path| read(path)?.trim().parse::<usize>().ok());
    machine.into_iter().chain(group).min()
}

fn of_machine(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::of_machine;

    #[test]
    fn the_system_tells_kibibytes() {
        assert_eq!(of_machine("MemTotal: 9 kB\nMemAvailable:    2048 kB\nX: 1\n"), Some(2 << 20));
        assert_eq!(of_machine("MemTotal: 9 kB\n"), None);
    }
}
