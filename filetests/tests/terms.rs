//! All plans of a program mean the same, whatever chose them; `cargo xtask fuzz --what rewrites` goes on behind these seeds.

use filetests::terms::{Forms, judge};

/// Programs of tier 1.
const PROGRAMS: u64 = 200;
/// Programs of which a right plan was once not accepted: a product that cancels, added without being rounded; a value whose two
/// readers make it again, each less exactly.
const ONCE_REFUSED: [u64; 2] = [305_832, 306_423];

#[test]
fn every_term_of_a_class_gives_the_same() {
    let forms = Forms::read().expect("the library's rules");
    let wrong: Vec<String> =
        (0..PROGRAMS).chain(ONCE_REFUSED).filter_map(|seed| judge(&forms, seed).err()).collect();
    assert!(wrong.is_empty(), "{} of {PROGRAMS}; the first:\n{}", wrong.len(), wrong[0]);
}
