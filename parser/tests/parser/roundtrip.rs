//! Printing and parsing are inverse to each other, and formatting is idempotent.

#![allow(clippy::disallowed_methods, reason = "what the front half may not do, its tests may")]

use crate::support::generate::Choices;
use crate::support::{carried, read, shown, strip};
use parser::{format, print, same_program};
use proptest::prelude::*;

fn check_text(name: &str, text: &str) {
    let file = read(name, text);
    let printed = print(&file);
    let again = read(name, &printed);
    assert!(same_program(&file, &again), "{name}: printing changed the program\n{printed}");
    assert_eq!(print(&again), printed, "{name}: printing is not idempotent");
    let formatted = format(text).unwrap_or_else(|_| panic!("{}", shown(text)));
    assert!(
        same_program(&file, &read(name, &formatted)),
        "{name}: formatting changed the program\n{formatted}"
    );
    let twice = format(&formatted).unwrap_or_else(|_| panic!("{}", shown(&formatted)));
    assert_eq!(twice, formatted, "{name}: formatting is not idempotent on\n{text}");
}

#[test]
fn every_program_the_grammar_must_carry_survives() {
    let programs = carried();
    assert!(programs.len() >= 14, "programs are missing");
    for (name, text) in programs {
        check_text(&name, &text);
    }
}

#[test]
fn the_programs_are_kept_formatted() {
    // All but the examples of design.md, which stand as their author wrote them.
    for (name, text) in carried().into_iter().filter(|(name, _)| name != "mlp.tn") {
        assert_eq!(format(&text).unwrap_or_default(), text, "{name}");
    }
}

/// A few hundred programs; PROPTEST_CASES asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if asked { default } else { ProptestConfig { cases: 300, ..default } }
}

/// Whatever it means, a place of a number is not a number with a point.
#[test]
fn a_place_of_a_number_stays_one() {
    check_text("place", "fn f(x: f32[0 .0]) -> f32 { x[1 .5] }\n");
}

#[test]
fn documentation_of_nothing_is_formatted_once() {
    for text in [
        "//! One.\n\n/// Of the function.\n//! Two.\n/// Of Two f32 { x }\n",
        "//! One.\n\n/// Of nothing.\n//! Two.\n// Last.\n",
        "fn f(x: f32) -> f32 { x }\n\n/// Of nothing.\n// Of f.\n/// Nor this.\n",
        "\n/// Of f.\n// Beside.\nfn f(x: f32) -> f32 {\n\n    /// Of nothing.\n    // Of x.\n    x }\n",
    ] {
        check_text("documentation of nothing", text);
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_program_built_of_trees_survives(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let file = Choices(&bytes).file();
        let printed = print(&file);
        let (mut again, faults) = parser::parse(Default::default(), &printed);
        prop_assert!(faults.is_empty(), "{}\n{printed}", shown(&printed));
        prop_assert_eq!(print(&again), &*printed, "printing is not stable");
        strip::strip(&mut again);
        prop_assert!(same_program(&file, &again), "the program changed\n{printed}\n{:#?}\n{:#?}", file, again);
        let formatted = format(&printed).unwrap_or_default();
        prop_assert_eq!(format(&formatted).unwrap_or_default(), &*formatted);
    }

    #[test]
    fn comments_anywhere_are_kept(which in 0usize..64, lines in prop::collection::vec(0usize..4000, 1..12), split in 0u8..8) {
        let programs = carried();
        let (name, text) = &programs[which % programs.len()];
        // Lines are broken in more places than a person would, to reach every list and chain.
        let mut text = text.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
        for (bit, (from, to)) in [(", ", ",\n"), (" + ", "\n + "), (" = ", " =\n")].into_iter().enumerate() {
            if split >> bit & 1 == 1 {
                text = text.replace(from, to);
            }
        }
        let mut out: Vec<String> = text.lines().map(String::from).collect();
        for (i, at) in lines.iter().enumerate() {
            let at = at % out.len();
            if i % 2 == 0 {
                out[at] += &format!(" // c{i}.");
            } else {
                out.insert(at, format!("// c{i}."));
            }
        }
        let text = out.join("\n");
        let file = read(name, &text);
        let formatted = format(&text).unwrap_or_default();
        for i in 0..lines.len() {
            prop_assert_eq!(formatted.matches(&format!("c{i}.")).count(), 1, "comment {} of\n{}\n{}", i, &text, &formatted);
        }
        prop_assert!(same_program(&file, &read(name, &formatted)), "{}\n{}", text, formatted);
        let twice = format(&formatted).unwrap_or_default();
        let first = formatted.lines().zip(twice.lines()).position(|(a, b)| a != b).unwrap_or(0);
        let near = |t: &str| t.lines().skip(first.saturating_sub(3)).take(8).collect::<Vec<_>>().join("\n");
        prop_assert!(twice == formatted, "not idempotent\n{}\n---\n{}\n=== of\n{}", near(&formatted), near(&twice), text);
        let printed = print(&file);
        prop_assert!(same_program(&file, &read(name, &printed)), "{}\n{}", text, printed);
    }
}
