//! Einsum notation: what a text such as `"bij,bjk->bik"` says about axes.
//!
//! Each operand's axes are labelled; a label in the result is kept, every other is summed over. Without `->` the
//! result has the labels that stand once, in the order of the alphabet. `...` stands for the axes that the other
//! labels leave, aligned at the right among operands; they come first in a result that is not written.
//! In a definition, where `s.append(t)` is all the operands' extents in a row:
//!
//! - `form.kept(s.rank, t.rank)`: for each label of the result, the axis in that row that it stands at first;
//! - `form.summed(..)`: the same for the labels summed over;
//! - `form.axes(q, ..)`: for each axis of operand `q`, the place of its label among the kept, then the summed;
//! - `form.same(..)`: for each axis of the row, the first axis that has its label.

use ir::source::Span;

use crate::env::{Answer, wrong};

/// A label: a letter, or an axis that `...` stands for, counted from the right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// Counted down, so that the order of labels is that of the axes.
    Rest(std::cmp::Reverse<usize>),
    Letter(char),
}

/// The text taken apart, for operands of some ranks.
struct Form {
    operands: Vec<Vec<Label>>,
    kept: Vec<Label>,
    summed: Vec<Label>,
}

/// One of the functions above, by name.
pub(crate) fn function(text: &str, name: &str, numbers: &[i64], at: Span) -> Answer<Vec<i64>> {
    let (which, ranks) = match (name, numbers) {
        ("axes", [which, ranks @ ..]) => (usize::try_from(*which).unwrap_or(usize::MAX), ranks),
        ("kept" | "summed" | "same", ranks) => (0, ranks),
        _ => {
            return wrong(
                at,
                format!("a form of labels has no function `{name}` (kept, summed, axes, same)"),
            );
        }
    };
    let form = parse(text, ranks, at)?;
    let row: Vec<Label> = form.operands.concat();
    let first = |l: &Label, list: &[Label]| list.iter().position(|x| x == l).map_or(-1, |p| p as i64);
    let in_row = |labels: &[Label]| labels.iter().map(|l| first(l, &row)).collect();
    match name {
        "kept" => Ok(in_row(&form.kept)),
        "summed" => Ok(in_row(&form.summed)),
        "same" => Ok(in_row(&row)),
        _ => {
            let all = [form.kept, form.summed].concat();
            match form.operands.get(which) {
                Some(operand) => Ok(operand.iter().map(|l| first(l, &all)).collect()),
                None => wrong(at, format!("\"{text}\" has no operand {which}")),
            }
        }
    }
}

fn parse(text: &str, ranks: &[i64], at: Span) -> Answer<Form> {
    let (inputs, output) = match text.split_once("->") {
        Some((i, o)) => (i, Some(o)),
        None => (text, None),
    };
    let inputs: Vec<&str> = inputs.split(',').collect();
    if inputs.len() != ranks.len() {
        let text =
            format!("\"{text}\" labels {}, got {}", ir::diag::count(inputs.len(), "operand"), ranks.len());
        return wrong(at, text);
    }
    let mut operands = Vec::new();
    let mut widest = 0;
    for (operand, &rank) in inputs.iter().zip(ranks) {
        let rank = usize::try_from(rank).unwrap_or(0);
        let letters = operand.chars().filter(|c| c.is_alphabetic()).count();
        let rest = rank.saturating_sub(letters);
        widest = widest.max(if operand.contains("...") { rest } else { 0 });
        let labels = labels(operand, rest, at)?;
        if labels.len() != rank {
            return wrong(
                at,
                format!(
                    "\"{operand}\" labels {} of an operand of rank {rank}",
                    ir::diag::count_of(labels.len(), "axis", "axes")
                ),
            );
        }
        operands.push(labels);
    }
    let row: Vec<Label> = operands.concat();
    let mut distinct: Vec<Label> = row.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let kept = match output {
        Some(o) => labels(o, widest, at)?,
        None => {
            let once = |l: &&Label| matches!(l, Label::Rest(_)) || row.iter().filter(|x| x == l).count() == 1;
            distinct.iter().filter(once).copied().collect()
        }
    };
    for (k, l) in kept.iter().enumerate() {
        if !row.contains(l) {
            return wrong(at, format!("a label of the result of \"{text}\" is on no operand"));
        }
        if kept[..k].contains(l) {
            return wrong(at, format!("a label stands twice in the result of \"{text}\""));
        }
    }
    // In the order in which they stand, so that the last axis of the last operand is summed innermost.
    let mut summed: Vec<Label> = Vec::new();
    for l in row.iter().filter(|l| !kept.contains(l)) {
        if !summed.contains(l) {
            summed.push(*l);
        }
    }
    Ok(Form { operands, kept, summed })
}

/// The labels of one operand, `...` as `rest` of them.
fn labels(text: &str, rest: usize, at: Span) -> Answer<Vec<Label>> {
    let mut out = Vec::new();
    let mut tail = text.trim();
    while let Some(c) = tail.chars().next() {
        if let Some(behind) = tail.strip_prefix("...") {
            out.extend((0..rest).rev().map(|k| Label::Rest(std::cmp::Reverse(k))));
            tail = behind;
        } else if c.is_alphabetic() {
            out.push(Label::Letter(c));
            tail = &tail[c.len_utf8()..];
        } else if c == ' ' {
            tail = &tail[1..];
        } else {
            return wrong(
                at,
                format!("`{c}` is no label; labels are letters, and `...` stands for the other axes"),
            );
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{Span, function};

    fn says(text: &str, name: &str, numbers: &[i64]) -> Option<Vec<i64>> {
        function(text, name, numbers, Span::default()).ok()
    }

    #[test]
    fn a_batched_product() {
        let form = "bij,bjk->bik";
        assert_eq!(says(form, "kept", &[3, 3]), Some(vec![0, 1, 5]));
        assert_eq!(says(form, "summed", &[3, 3]), Some(vec![2]));
        assert_eq!(says(form, "axes", &[0, 3, 3]), Some(vec![0, 1, 3]));
        assert_eq!(says(form, "axes", &[1, 3, 3]), Some(vec![0, 3, 2]));
        assert_eq!(says(form, "same", &[3, 3]), Some(vec![0, 1, 2, 0, 2, 5]));
    }

    #[test]
    fn a_result_that_is_not_written() {
        assert_eq!(says("ba", "kept", &[2]), Some(vec![1, 0]));
        assert_eq!(says("ii", "kept", &[2]), Some(vec![]));
        assert_eq!(says("ii", "summed", &[2]), Some(vec![0]));
        assert_eq!(says("...ij,jk", "kept", &[4, 2]), Some(vec![0, 1, 2, 5]));
    }

    #[test]
    fn the_other_axes_line_up_at_the_right() {
        assert_eq!(says("...i,...i->...", "kept", &[3, 2]), Some(vec![0, 1]));
        assert_eq!(says("...i,...i->...", "axes", &[1, 3, 2]), Some(vec![1, 2]));
    }

    #[test]
    fn faults_are_refused() {
        for (text, ranks) in
            [("ij", &[3][..]), ("ij,jk->ik", &[2]), ("ij->ik", &[2]), ("ij->ii", &[2]), ("i1", &[2])]
        {
            assert_eq!(says(text, "kept", ranks), None, "{text}");
        }
    }
}
