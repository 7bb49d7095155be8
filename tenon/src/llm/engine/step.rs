//! A step: rows of sequences in, logits out.
//!
//! What a step is given and what it gives stand where they stood in the step before: one with as many rows, in which no
//! sequence begins a page, allocates nothing.

#![expect(clippy::disallowed_methods, reason = "steps are timed")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use tensor::{DType, Tensor};
use vm::{Arg, Limits, Output};

use super::super::state::{GONE, Kept, PAGE};
use super::{Engine, Sequence, SequenceId, ended};
use crate::Error;

/// The rows of one sequence in a step.
#[derive(Clone, Debug)]
pub struct Rows<'r> {
    /// The sequence.
    pub sequence: SequenceId,
    /// The tokens that come behind those it has.
    pub tokens: &'r [u32],
    /// Of how many of the last of these rows logits are wanted.
    pub wanted: usize,
}

impl Rows<'_> {
    /// Of how many rows that there are logits are wanted.
    fn wanted(&self) -> usize {
        self.wanted.min(self.tokens.len())
    }
}

/// What a step gave each of its sequences, by their places in it. It is the engine's until the next step.
#[derive(Debug, Default)]
pub struct Answers {
    logits: Option<Tensor>,
    each: Vec<Result<Range<usize>, Error>>,
    /// The places of those that had no page.
    lacking: Vec<usize>,
}

impl Answers {
    /// The logits of the rows that were wanted, `vocab` of each, one row behind the other; or why there are none.
    pub fn logits(&self, at: usize) -> Result<&[f32], Error> {
        let none = || Err(Error::message("E0601", format!("no rows stood at {at} in the step")));
        let range = self.each.get(at).cloned().unwrap_or_else(none)?;
        let all = self.logits.as_ref().and_then(Tensor::as_f32).unwrap_or(&[]);
        Ok(all.get(range).unwrap_or(&[]))
    }

    /// Whether there are none because no page was free: it may be tried again where others have given theirs back.
    pub fn lacks_room(&self, at: usize) -> bool {
        self.lacking.contains(&at)
    }

    /// The same of all, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Result<&[f32], Error>> {
        (0..self.each.len()).map(|at| self.logits(at))
    }
}

/// A parameter of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Input {
    Tokens,
    Sequence,
    Position,
    Last,
    /// A leaf of a part.
    Leaf,
    /// The pages of a part.
    Table(usize),
    /// The slots of a part that are read.
    From(usize),
    /// Those that are written.
    To(usize),
}

impl Input {
    /// What it is in a step of those rows of a batch that run.
    fn fill(
        self,
        tensor: &mut Tensor,
        (batch, runs): (&[Rows<'_>], &[usize]),
        of: &BTreeMap<u64, Sequence>,
    ) -> Result<(), Error> {
        let sequences = || runs.iter().map(|k| &batch[*k]).map(|r| (r, &of[&r.sequence.0]));
        let count = sequences().map(|(r, _)| r.tokens.len()).sum();
        let rows = || sequences().enumerate();
        match self {
            Input::Leaf => Ok(()),
            Input::Tokens => {
                write(tensor, &[count], sequences().flat_map(|(r, _)| r.tokens.iter().map(|t| *t as i32)))
            }
            Input::Sequence => {
                write(tensor, &[count], rows().flat_map(|(s, (r, _))| r.tokens.iter().map(move |_| s as i32)))
            }
            Input::Position => {
                let of_one = |(r, s): (&Rows<'_>, &Sequence)| {
                    let from = s.tokens.len();
                    (from..from + r.tokens.len()).map(|p| p as i32)
                };
                write(tensor, &[count], sequences().flat_map(of_one))
            }
            Input::Last => {
                let wanted = sequences().map(|(r, _)| r.wanted()).sum();
                let mut end = 0;
                let last = sequences().flat_map(move |(r, _)| {
                    end += r.tokens.len();
                    (end - r.wanted()..end).map(|k| k as i32)
                });
                write(tensor, &[wanted], last)
            }
            Input::Table(p) => {
                let units = |s: &Sequence| s.held[p].units.len();
                let span = sequences().map(|(_, s)| units(s)).max().unwrap_or(0);
                let page = |u: &u32| if *u == GONE { 0 } else { *u as i32 };
                let table = sequences().flat_map(|(_, s)| {
                    let pages = s.held[p].units.iter().map(page);
                    pages.chain(std::iter::repeat_n(0, span - units(s)))
                });
                write(tensor, &[runs.len(), span], table)
            }
            // A sequence without tokens has nothing to read.
            Input::From(p) => {
                let from = |s: &Sequence| match s.held[p].units.as_slice() {
                    [read, _] => *read as i32,
                    _ => -1,
                };
                write(tensor, &[runs.len()], sequences().map(|(_, s)| from(s)))
            }
            Input::To(p) => {
                let to = |s: &Sequence| s.held[p].units.last().map_or(-1, |u| *u as i32);
                write(tensor, &[runs.len()], sequences().map(|(_, s)| to(s)))
            }
        }
    }
}

/// Writes numbers to a tensor, which is a new one where it has another shape.
fn write<const N: usize>(
    tensor: &mut Tensor,
    shape: &[usize; N],
    values: impl Iterator<Item = i32>,
) -> Result<(), Error> {
    let shape = shape.map(|n| n as i64);
    if tensor.shape() != shape {
        *tensor = Tensor::zeros(DType::I32, &shape)?;
    }
    let places = tensor.bytes_mut().chunks_exact_mut(size_of::<i32>());
    places.zip(values).for_each(|(to, v)| to.copy_from_slice(&v.to_le_bytes()));
    Ok(())
}

impl Engine {
    /// Runs a step; gives the logits of the rows wanted, in the order of the rows. Whatever is wrong with one sequence
    /// is wrong with the step; what logits are is not asked.
    pub fn step(&mut self, batch: &[Rows<'_>], limits: &Limits) -> Result<Tensor, Error> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        // What has no row is not written.
        runs.extend((0..batch.len()).filter(|k| !batch[*k].tokens.is_empty()));
        let done = self.together(batch, &runs, limits);
        self.runs = runs;
        done
    }

    fn together(&mut self, batch: &[Rows<'_>], runs: &[usize], limits: &Limits) -> Result<Tensor, Error> {
        runs.iter().try_for_each(|k| self.allowed(batch, *k))?;
        let begun = runs.iter().try_for_each(|k| self.extend(&batch[*k]));
        let done = begun.and_then(|()| self.timed(batch, runs, limits));
        for k in runs {
            match &done {
                Ok(_) => self.settle(&batch[*k]),
                Err(_) => self.restore(&batch[*k]),
            }
        }
        done
    }

    /// Runs a step; gives for each sequence the logits of its rows that are wanted, or why it has none: it has ended or
    /// stands twice, a token is not of the vocabulary, no page is free, or logits are no numbers. Such a sequence
    /// stands as it did before, and the others go on. A step that fails as a whole, as one that was cancelled, is an
    /// error, and all stand as they did.
    pub fn step_each(&mut self, batch: &[Rows<'_>], limits: &Limits) -> Result<&Answers, Error> {
        let mut answers = std::mem::take(&mut self.answers);
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        // Where they were, those of this step will be.
        answers.logits = None;
        answers.each.clear();
        answers.lacking.clear();
        for (k, rows) in batch.iter().enumerate() {
            let begun = self.allowed(batch, k).and_then(|()| self.known(rows)).and_then(|()| {
                let begun = self.extend(rows);
                if begun.is_err() {
                    answers.lacking.push(k);
                    self.restore(rows);
                }
                begun
            });
            if begun.is_ok() && !rows.tokens.is_empty() {
                runs.push(k);
            }
            answers.each.push(begun.map(|()| 0..0));
        }
        let done = if runs.is_empty() { Ok(()) } else { self.apart(batch, &runs, limits, &mut answers) };
        self.runs = runs;
        self.answers = answers;
        done.map(|()| &self.answers)
    }

    fn apart(
        &mut self,
        batch: &[Rows<'_>],
        runs: &[usize],
        limits: &Limits,
        answers: &mut Answers,
    ) -> Result<(), Error> {
        let logits = match self.timed(batch, runs, limits) {
            Ok(logits) => logits,
            Err(e) => {
                runs.iter().for_each(|k| self.restore(&batch[*k]));
                answers.each.clear();
                return Err(e);
            }
        };
        let all = logits.as_f32().unwrap_or(&[]);
        let width = logits.shape().get(1).map_or(0, |n| usize::try_from(*n).unwrap_or(0));
        let mut from = 0;
        for &k in runs {
            let rows = &batch[k];
            let own = from..from + rows.wanted() * width;
            from = own.end;
            let mut each = all.get(own.clone()).unwrap_or(&[]).chunks(width.max(1));
            match each.position(|row| !is_numbers(row)) {
                None => {
                    answers.each[k] = Ok(own);
                    self.settle(rows);
                }
                Some(row) => {
                    let first = self.length(rows.sequence) + rows.tokens.len() - rows.wanted();
                    answers.each[k] = Err(no_numbers(first + row));
                    self.restore(rows);
                }
            }
        }
        answers.logits = Some(logits);
        Ok(())
    }

    /// A step of one sequence, as [`step_each`](Engine::step_each) does it. Its logits stand in [`Engine::answers`].
    pub(crate) fn step_one(&mut self, rows: Rows<'_>, limits: &Limits) -> Result<(), Error> {
        self.step_each(&[rows], limits)?.logits(0).map(|_| ())
    }

    /// What the last step that was taken apart gave.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Whether a sequence of a batch may have rows in it.
    fn allowed(&self, batch: &[Rows<'_>], k: usize) -> Result<(), Error> {
        let id = batch[k].sequence;
        if !self.sequences.contains_key(&id.0) {
            return Err(ended(id));
        }
        if batch[..k].iter().any(|r| r.sequence == id && !r.tokens.is_empty()) {
            return Err(Error::message("E0601", "a sequence stands twice in a step".to_owned()));
        }
        Ok(())
    }

    /// Whether the tokens of rows are of the vocabulary.
    fn known(&self, rows: &Rows<'_>) -> Result<(), Error> {
        let Some(token) = rows.tokens.iter().find(|t| **t as usize >= self.vocab) else { return Ok(()) };
        let text = format!("token {token} is not in the vocabulary of {}", self.vocab);
        Err(Error::message("E0601", text))
    }

    fn timed(&mut self, batch: &[Rows<'_>], runs: &[usize], limits: &Limits) -> Result<Tensor, Error> {
        for (input, tensor) in &mut self.inputs {
            input.fill(tensor, (batch, runs), &self.sequences)?;
        }
        let most = [limits.memory, self.budget].into_iter().flatten().min();
        let limits = Limits { memory: most, ..limits.clone() };
        let begun = Instant::now();
        let done = self.run(&limits);
        self.counts.step(begun.elapsed(), done.is_ok());
        done
    }

    fn run(&mut self, limits: &Limits) -> Result<Tensor, Error> {
        let mut pools = self.state.tensors.values_mut();
        // Pools stand in the order of the parameters.
        let args = self.inputs.iter_mut().map(|(input, tensor)| {
            let pool = if *input == Input::Leaf { pools.next() } else { None };
            Arg::Updated(pool.unwrap_or(tensor))
        });
        let (mut logits, mut count) = (None, 0);
        let mut moved: Vec<(usize, Tensor)> = Vec::new();
        self.step.update_each(args, limits, &mut |result| {
            match result {
                Output::New(t) if count == 0 => logits = Some(t),
                Output::New(t) => moved.push((count - 1, t)),
                Output::Updated(_) => {}
            }
            count += 1;
        })?;
        // What of the state is not where it was takes its place.
        for (at, t) in moved {
            let kept = |i: &Input| matches!(i, Input::Leaf | Input::Table(_) | Input::From(_) | Input::To(_));
            let mut leaves = self.inputs.iter().enumerate().filter(|(_, (i, _))| kept(i));
            if let Some((i, (Input::Leaf, _))) = leaves.nth(at) {
                self.state.tensors.insert(i, t);
            }
        }
        logits.ok_or_else(|| Error::message("E0605", "a step gives logits first".to_owned()))
    }

    /// Gives a sequence the pages of the rows that come, and slots to write to.
    fn extend(&mut self, rows: &Rows<'_>) -> Result<(), Error> {
        for p in 0..self.state.parts.len() {
            let lacking = |sequence: &Sequence, kept: Kept| match kept {
                Kept::Token { .. } => {
                    let pages = (sequence.tokens.len() + rows.tokens.len()).div_ceil(PAGE);
                    pages.saturating_sub(sequence.held[p].units.len())
                }
                // The one that is written; what stands there before is read.
                Kept::Sequence => usize::from(!rows.tokens.is_empty()),
            };
            let count = self.sequences.get(&rows.sequence.0).map(|s| lacking(s, self.state.parts[p].kept));
            for _ in 0..count.unwrap_or(0) {
                let unit = self.take(p)?;
                match self.sequences.get_mut(&rows.sequence.0) {
                    Some(sequence) => sequence.held[p].units.push(unit),
                    None => self.state.parts[p].release(unit),
                }
            }
        }
        // A list of tokens grows by whole pages.
        if let Some(sequence) = self.sequences.get_mut(&rows.sequence.0) {
            let length = sequence.tokens.len();
            sequence.tokens.reserve((length + rows.tokens.len()).next_multiple_of(PAGE) - length);
        }
        Ok(())
    }

    /// Puts a sequence back to what it was before a step that failed.
    fn restore(&mut self, rows: &Rows<'_>) {
        let Some(sequence) = self.sequences.get_mut(&rows.sequence.0) else { return };
        let pages = sequence.tokens.len().div_ceil(PAGE);
        let slots = usize::from(!sequence.tokens.is_empty());
        for (part, held) in self.state.parts.iter_mut().zip(&mut sequence.held) {
            let had = if part.kept == Kept::Sequence { slots } else { pages };
            let more = held.units.split_off(had.min(held.units.len()));
            more.into_iter().for_each(|u| part.release(u));
        }
    }

    /// Keeps what a step has made: the rows count, slots are exchanged, full pages are noted for others, and those that
    /// nobody looks at any more are given back.
    fn settle(&mut self, rows: &Rows<'_>) {
        let Some(sequence) = self.sequences.get_mut(&rows.sequence.0) else { return };
        let before = sequence.tokens.len();
        self.counts.rows(before, rows.tokens.len());
        sequence.tokens.extend_from_slice(rows.tokens);
        for (part, held) in self.state.parts.iter_mut().zip(&mut sequence.held) {
            if part.kept == Kept::Sequence && held.units.len() > 1 {
                let read = held.units.remove(0);
                part.release(read);
            }
        }
        self.note(rows.sequence, before);
        let Some(sequence) = self.sequences.get_mut(&rows.sequence.0) else { return };
        for (part, held) in self.state.parts.iter_mut().zip(&mut sequence.held) {
            if let Kept::Token { within: Some(within) } = part.kept {
                // A later row at the end or behind it looks back to `length - within + 1`.
                let first = (sequence.tokens.len() + 1).saturating_sub(within) / PAGE;
                for u in held.units.iter_mut().take(first).filter(|u| **u != GONE) {
                    part.release(*u);
                    *u = GONE;
                }
            }
        }
    }

    /// Notes the pages of a sequence that became full, and where it stands at the end of one a checkpoint.
    fn note(&mut self, id: SequenceId, before: usize) {
        let Some(sequence) = self.sequences.get(&id.0).filter(|s| !s.lost) else { return };
        let (from, to) = (before / PAGE, sequence.tokens.len() / PAGE);
        if from == to {
            return;
        }
        let mut node = sequence.node;
        let kept: Vec<Kept> = self.state.parts.iter().map(|p| p.kept).collect();
        for k in from..to {
            let sequence = &self.sequences[&id.0];
            if node.is_some_and(|n| !self.prefixes.has(n)) {
                self.sequences.entry(id.0).and_modify(|s| s.lost = true);
                return;
            }
            let page = &sequence.tokens[k * PAGE..(k + 1) * PAGE];
            if let Some(known) = self.prefixes.find(node, page) {
                node = Some(known);
                continue;
            }
            let unit = |p: usize| match kept[p] {
                Kept::Token { .. } => sequence.held[p].units.get(k).copied(),
                Kept::Sequence => None,
            };
            let units: Vec<Option<u32>> = (0..kept.len()).map(unit).collect();
            for (part, unit) in self.state.parts.iter_mut().zip(&units) {
                unit.iter().for_each(|u| part.share(*u));
            }
            node = Some(self.prefixes.insert(node, page, units));
        }
        self.sequences.entry(id.0).and_modify(|s| s.node = node);
        let ends = self.sequences[&id.0].tokens.len().is_multiple_of(PAGE);
        let Some(node) = node.filter(|_| ends) else { return };
        for p in (0..kept.len()).filter(|p| kept[*p] == Kept::Sequence) {
            let Some(&own) = self.sequences[&id.0].held[p].units.last() else { continue };
            if self.prefixes.unit(node, p).is_some() {
                continue;
            }
            // The oldest makes room.
            if self.prefixes.units(p).count() >= self.checkpoints {
                let Some(slot) = self.prefixes.forget_checkpoint(p) else { continue };
                self.state.parts[p].release(slot);
            }
            if let Some(slot) = self.state.parts[p].take() {
                self.copy(p, own, slot);
                self.prefixes.set_unit(node, p, slot);
            }
        }
    }
}

/// Whether logits say which token may follow: some have a value, and none is beyond all.
fn is_numbers(row: &[f32]) -> bool {
    row.iter().any(|x| x.is_finite()) && !row.iter().any(|x| x.is_nan() || *x == f32::INFINITY)
}

fn no_numbers(at: usize) -> Error {
    let text = format!(
        "the logits behind token {at} are no numbers: the model computed NaN, or a value without end"
    );
    Error::message("E0602", text)
}
