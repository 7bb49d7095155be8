//! The plans of functions at two points, beside one another: what runs at either, and how long by the model.
//!
//! In: two reports of one module, each for a point ([`crate::Options::at`]). Out: a table. A step that only one plan
//! has stands alone in its row.

use std::fmt::Write as _;

use crate::measured::Basis;
use crate::report::{FuncReport, RegimeReport, Report, Step, point, short};

/// Steps that take less at both points are counted, not shown: views, scalars.
const SMALL: f64 = 0.05;

/// A step of the one plan, of the other, or of both.
type Row<'r> = (Option<&'r Step>, Option<&'r Step>);

/// The table.
pub fn render_beside(left: &Report, right: &Report) -> String {
    let mut out = format!("machine {}\n", left.machine);
    for a in &left.functions {
        let Some(b) = right.functions.iter().find(|b| b.name == a.name) else { continue };
        if let (Some(l), Some(r)) = (a.regimes.first(), b.regimes.first()) {
            function(&mut out, a, l, r);
        }
    }
    out
}

fn function(out: &mut String, func: &FuncReport, left: &RegimeReport, right: &RegimeReport) {
    let rows = rows(&left.steps, &right.steps);
    let us = |s: Option<&Step>| s.map_or_else(|| "-".to_owned(), |s| short(s.us));
    let shown: Vec<&Row<'_>> =
        rows.iter().filter(|(a, b)| [a, b].into_iter().flatten().any(|s| s.us >= SMALL)).collect();
    // One that only calls others.
    if shown.is_empty() && !func.calls.is_empty() {
        return;
    }
    let invariant = if func.invariant { ", invariant" } else { "" };
    let (same, other): (Vec<_>, Vec<_>) = left.at.iter().cloned().partition(|d| right.at.contains(d));
    let there = right.at.iter().filter(|d| !left.at.contains(d)).cloned().collect::<Vec<_>>();
    let said = |at: &[(String, i64)]| point(at).replacen(" at ", "", 1);
    let _ = writeln!(out, "fn {}{invariant}{}, in microseconds", func.name, point(&same));
    let _ = writeln!(out, "  {:>12} {:>12}", said(&other), said(&there));
    for (a, b) in &shown {
        let Some(step) = a.or(*b) else { continue };
        let covers =
            if step.covers.len() > 1 { format!(" [{}]", step.covers.join(" ")) } else { String::new() };
        let guessed = if step.source == Basis::Guessed.name() { ", guessed" } else { "" };
        let _ =
            writeln!(out, "  {:>12} {:>12}  {}: {}{covers}{guessed}", us(*a), us(*b), step.value, step.name);
    }
    let loops = rows.iter().any(|(a, b)| [a, b].into_iter().flatten().any(|s| !s.block.is_empty()));
    let loops = if loops { ", with all rounds of loops and half of each branch" } else { "" };
    let calls = if func.calls.is_empty() { "" } else { ", beside calls" };
    let (us, there) = (short(left.total_us), short(right.total_us));
    let _ = writeln!(out, "  {us:>12} {there:>12}  in all{loops}{calls}");
    let alone = rows.iter().filter(|(a, b)| a.is_none() || b.is_none()).count();
    let what = match alone {
        0 => "both have the same steps".to_owned(),
        n => format!("{n} steps are in one of them"),
    };
    let _ = writeln!(out, "  {what}; {} small ones are not shown", rows.len() - shown.len());
}

/// The steps of both in order; those that are alike in one row.
fn rows<'r>(left: &'r [Step], right: &'r [Step]) -> Vec<Row<'r>> {
    let alike = |i: usize, j: usize| left[i].name == right[j].name && left[i].ty == right[j].ty;
    // The longest common subsequence of what is behind each pair of places.
    let mut longest = vec![vec![0_u32; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            longest[i][j] = if alike(i, j) {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut rows = Vec::new();
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && alike(i, j) {
            rows.push((Some(&left[i]), Some(&right[j])));
            (i, j) = (i + 1, j + 1);
        } else if j == right.len() || i < left.len() && longest[i + 1][j] >= longest[i][j + 1] {
            rows.push((Some(&left[i]), None));
            i += 1;
        } else {
            rows.push((None, Some(&right[j])));
            j += 1;
        }
    }
    rows
}
