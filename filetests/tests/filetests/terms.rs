//! All plans of a program mean the same, whatever chose them; `cargo xtask fuzz --what rewrites` goes on behind these
//! seeds.

use driver::cores::on_all_cores;
use filetests::terms::{Forms, judge};

/// Programs of tier 1.
const PROGRAMS: u64 = 80;
/// Programs of which a right plan was once not accepted: a product that cancels, added without being rounded; a value
/// whose two readers make it again, each less exactly.
const ONCE_REFUSED: [u64; 2] = [305_832, 306_423];

#[test]
fn every_term_of_a_class_gives_the_same() {
    let forms = Forms::read().expect("the library's rules");
    let seeds: Vec<u64> = (0..PROGRAMS).chain(ONCE_REFUSED).collect();
    let judged = on_all_cores(&seeds, |seed| judge(&forms, *seed));
    let wrong: Vec<String> = judged.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of {PROGRAMS}; the first:\n{}", wrong.len(), wrong[0]);
}
