//! Random programs through every engine; the soak tier (`cargo xtask soak`) runs the same for longer.

/// Programs of tier 1.
const PROGRAMS: u64 = 100;

#[test]
fn engines_agree_on_random_programs() {
    let wrong: Vec<String> =
        (0..PROGRAMS).filter_map(|seed| filetests::random::differential(seed).err()).collect();
    assert!(wrong.is_empty(), "{} of {PROGRAMS} differ; the first:\n{}", wrong.len(), wrong[0]);
}
