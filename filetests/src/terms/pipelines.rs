//! Pipelines of random passes in an order that the checker takes: what a program means depends on none.

use std::fmt::Write as _;

use tensor::generate::Rng;

use super::draft::below;

/// Of so many programs one is planned by the usual pipeline, the others by one that is drawn.
const USUAL: u64 = 2;

/// The name of a pipeline that is drawn.
pub(super) const DRAWN: &str = "drawn";

/// The pipeline by which the program of a seed is planned, as text; none: the usual one.
pub(super) fn drawn(families: &[String], seed: u64) -> Option<String> {
    if seed.is_multiple_of(USUAL) {
        return None;
    }
    let mut rng = Rng::new(seed ^ 0x7069_7065);
    let mut passes: Vec<String> = Vec::new();
    if below(&mut rng, 4) > 0 {
        passes.push("inline".to_owned());
    }
    for _ in 0..below(&mut rng, 6) {
        let pass = match below(&mut rng, 6) {
            0 => "merge".to_owned(),
            1 if !passes.iter().any(|p| p == "load_time") => "load_time".to_owned(),
            2 => "saturate".to_owned(),
            _ => saturate(families, &mut rng),
        };
        passes.push(pass);
    }
    let mut offers =
        vec!["fuse".to_owned(), "library".to_owned(), format!("regimes {}", 1 + below(&mut rng, 4))];
    while !offers.is_empty() {
        let offer = offers.swap_remove(below(&mut rng, offers.len()));
        if below(&mut rng, 4) > 0 {
            passes.push(offer);
        }
    }
    Some(format!("pipeline {DRAWN} {{ {} }}\n", passes.join("; ")))
}

/// Some families, each at most once, and perhaps a number of rounds.
fn saturate(families: &[String], rng: &mut Rng) -> String {
    let mut left: Vec<&String> = families.iter().collect();
    let mut args: Vec<String> = Vec::new();
    for _ in 0..=below(rng, 3).min(left.len().saturating_sub(1)) {
        args.push(left.swap_remove(below(rng, left.len())).clone());
    }
    let mut out = format!("saturate {}", args.join(", "));
    if below(rng, 2) == 0 {
        let _ = write!(out, ", {}", 1 + below(rng, 3));
    }
    out
}
