//! Steps of a model over sequences: rows in, logits out, and what the sequences keep.
//!
//! A step takes rows of any number of sequences: a prompt, a part of one, the next token of each, or all of that at
//! once. Where it fails, each sequence stands as it did before; where it fails for some of them, the others go on.

#![expect(clippy::disallowed_methods, reason = "steps are timed")]

use std::collections::BTreeMap;
use std::time::Instant;

use tensor::{DType, Tensor};
use vm::{Arg, Limits, Output};

use super::prefix::{NodeId, Prefixes};
use super::state::{self, GONE, Held, Kept, PAGE, State};
use super::statistics::{Counts, Pool, Statistics};
use crate::{Error, Function};

/// A model that is ready to run, with the memory of its sequences.
#[derive(Debug)]
pub struct Engine {
    step: Function,
    state: State,
    /// What the parameters are, by place.
    inputs: Vec<Input>,
    sequences: BTreeMap<u64, Sequence>,
    prefixes: Prefixes,
    /// The most checkpoints of a part.
    checkpoints: usize,
    next: u64,
    vocab: usize,
    counts: Counts,
    /// The most bytes that a step may hold.
    budget: Option<usize>,
}

/// The bytes that checkpoints of what is kept by sequence may have.
const CHECKPOINTS: usize = 256 << 20;

/// A sequence of an [`Engine`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SequenceId(u64);

/// What a sequence has.
#[derive(Clone, Debug, Default)]
struct Sequence {
    tokens: Vec<u32>,
    /// By part.
    held: Vec<Held>,
    /// The node of its last full page in the tree of prefixes.
    node: Option<NodeId>,
    /// True if the tree has forgotten a page of it: none is noted any more.
    lost: bool,
}

impl Sequence {
    /// One without tokens.
    fn of(parts: usize) -> Sequence {
        Sequence { held: vec![Held::default(); parts], ..Sequence::default() }
    }
}

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

/// A parameter of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Input {
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

/// How many pages and slots there are for so many tokens in all of so many sequences.
pub(crate) fn pools(state: &State, tokens: usize, sequences: usize) -> Result<(usize, usize), Error> {
    // Places and sequences are numbers of 32 bits.
    let most = i32::MAX as usize;
    if sequences > most / 4 {
        return Err(Error::message("E0601", format!("{sequences} sequences are too many")));
    }
    // Each sequence may leave a page half full.
    let pages = tokens.div_ceil(PAGE) + sequences;
    let slots = 2 * sequences + state.slots_within(CHECKPOINTS);
    if pages > most || state.bytes_of(pages, slots) > most as u128 * most as u128 {
        return Err(large(state, pages, slots, tokens));
    }
    Ok((pages, slots))
}

/// What so many tokens would take.
pub(crate) fn large(state: &State, pages: usize, slots: usize, tokens: usize) -> Error {
    let bytes = state.bytes_of(pages, slots);
    let text = format!("{tokens} tokens need {bytes} bytes for what is kept of them; --ctx N makes it less");
    Error::message("E0601", text)
}

impl Engine {
    /// An engine for a bound `step`, with memory for so many tokens in all of so many sequences.
    pub(crate) fn new(step: Function, tokens: usize, sequences: usize) -> Result<Engine, Error> {
        let wanted: Vec<_> = step.open().cloned().collect();
        let config = step.config().clone();
        let mut state = State::declared(&wanted, &config)?;
        let (pages, slots) = pools(&state, tokens, sequences)?;
        if state.allocate(&wanted, &config, pages, slots).is_err() {
            return Err(large(&state, pages, slots, tokens));
        }
        let checkpoints = slots - 2 * sequences;
        let mut inputs = Vec::new();
        for (i, w) in wanted.iter().enumerate() {
            let part = |field: &str| {
                state.parts.iter().position(|p| p.places.contains(&i) && w.name.ends_with(field))
            };
            let input = match w.name.as_str() {
                "tokens" => Input::Tokens,
                "at.sequence" => Input::Sequence,
                "at.position" => Input::Position,
                "last" => Input::Last,
                _ if state.tensors.contains_key(&i) => Input::Leaf,
                _ => match (part(".table"), part(".from"), part(".to")) {
                    (Some(p), ..) => Input::Table(p),
                    (_, Some(p), _) => Input::From(p),
                    (.., Some(p)) => Input::To(p),
                    _ => return Err(unknown(&w.name, &w.ty.to_string())),
                },
            };
            inputs.push(input);
        }
        let vocab =
            config.get("vocab").and_then(ir::origin::Value::as_i64).and_then(|n| usize::try_from(n).ok());
        let Some(vocab) = vocab else {
            return Err(Error::message("E0605", "the model's config says no `vocab`".to_owned()));
        };
        let prefixes = Prefixes::default();
        let (sequences, counts) = (BTreeMap::new(), Counts::now());
        let budget = None;
        Ok(Engine { step, state, inputs, sequences, prefixes, checkpoints, next: 0, vocab, counts, budget })
    }

    /// The same within so many bytes: weights and what sequences keep are there already, a step may hold the rest.
    pub(crate) fn within(self, memory: Option<u64>) -> Engine {
        let held = self.step.memory().weights + self.state.bytes();
        let budget = memory.map(|n| usize::try_from(n.saturating_sub(held)).unwrap_or(usize::MAX));
        Engine { budget, ..self }
    }

    /// What was done so far, and what is held.
    pub fn statistics(&self) -> Statistics {
        let pool = |(p, part): (usize, &state::Part)| {
            let cached = self.prefixes.units(p).filter(|u| *u != GONE && !part.is_shared(*u)).count();
            Pool {
                name: part.name.clone(),
                tokens: if part.kept == Kept::Sequence { None } else { Some(PAGE) },
                unit: part.unit as u64,
                all: part.all(),
                free: part.free(),
                cached,
            }
        };
        let pools = self.state.parts.iter().enumerate().map(pool).collect();
        let (sequences, kernels) = (self.sequences.len(), self.step.kernels());
        self.counts.statistics(sequences, pools, self.step.memory(), self.state.bytes(), kernels)
    }

    /// What runs its steps.
    pub fn function(&self) -> &Function {
        &self.step
    }

    /// How many tokens there are.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// A sequence without tokens.
    pub fn begin(&mut self) -> SequenceId {
        self.next += 1;
        self.sequences.insert(self.next, Sequence::of(self.state.parts.len()));
        SequenceId(self.next)
    }

    /// A sequence that has the first of some tokens already, as far as an earlier one computed the same. At least the
    /// last token is left, so that there are logits to ask for.
    pub fn begin_with(&mut self, tokens: &[u32]) -> Result<SequenceId, Error> {
        let id = self.begin();
        let most = tokens.len().saturating_sub(1);
        let found = self.go_on(id, &tokens[..most]);
        if found.is_err() {
            self.end(id);
        }
        self.counts.reused += self.length(id) as u64;
        found.map(|()| id)
    }

    /// Gives a sequence without tokens as many of these as are computed.
    fn go_on(&mut self, id: SequenceId, tokens: &[u32]) -> Result<(), Error> {
        let path = self.prefixes.path(tokens);
        let kept = |p: usize| self.state.parts[p].kept;
        let slots: Vec<usize> = (0..self.state.parts.len()).filter(|p| kept(*p) == Kept::Sequence).collect();
        // What is kept by sequence is known where there is a checkpoint.
        let whole = |id: &NodeId| slots.iter().all(|p| self.prefixes.unit(*id, *p).is_some());
        let Some(depth) = path.iter().rposition(whole) else { return Ok(()) };
        let mut sequence = Sequence::of(self.state.parts.len());
        // Pages first: what makes room for a slot leaves them.
        for p in (0..self.state.parts.len()).filter(|p| !slots.contains(p)) {
            for node in &path[..=depth] {
                let unit = self.prefixes.unit(*node, p).unwrap_or(GONE);
                self.state.parts[p].share(unit);
                sequence.held[p].units.push(unit);
            }
        }
        for p in slots {
            let Some(from) = self.prefixes.unit(path[depth], p) else { continue };
            match self.take(p) {
                Ok(to) => {
                    self.copy(p, from, to);
                    sequence.held[p].units.push(to);
                }
                Err(e) => {
                    self.release(&sequence);
                    return Err(e);
                }
            }
        }
        sequence.tokens = tokens[..(depth + 1) * PAGE].to_vec();
        sequence.node = Some(path[depth]);
        self.sequences.insert(id.0, sequence);
        Ok(())
    }

    /// Takes the last tokens from a sequence, so that it has no more than so many. What is kept of it may not let it
    /// stand just there: then it has fewer, as it tells.
    pub fn rewind(&mut self, id: SequenceId, length: usize) -> Result<usize, Error> {
        let Some(sequence) = self.sequences.get(&id.0) else { return Err(ended(id)) };
        if length >= sequence.tokens.len() {
            return Ok(sequence.tokens.len());
        }
        let pages = length.div_ceil(PAGE);
        let stays = self.state.parts.iter().zip(&sequence.held).all(|(part, held)| match part.kept {
            Kept::Sequence => false,
            Kept::Token { within: None } => true,
            Kept::Token { within: Some(within) } => {
                let first = (length + 1).saturating_sub(within) / PAGE;
                held.units[..pages].iter().skip(first).all(|u| *u != GONE)
            }
        });
        let tokens = sequence.tokens[..length].to_vec();
        if !stays {
            let old = self.sequences.insert(id.0, Sequence::of(self.state.parts.len()));
            let done = self.go_on(id, &tokens);
            old.iter().for_each(|s| self.release(s));
            done?;
            return Ok(self.length(id));
        }
        for p in 0..self.state.parts.len() {
            let Some(sequence) = self.sequences.get_mut(&id.0) else { break };
            let units = &mut sequence.held[p].units;
            let beyond = units.split_off(pages);
            beyond.into_iter().for_each(|u| self.state.parts[p].release(u));
            // A page that others have is written by no one.
            let partly = !length.is_multiple_of(PAGE);
            if let Some(&last) = units.last().filter(|u| partly && self.state.parts[p].is_shared(**u)) {
                let new = self.take(p)?;
                self.copy(p, last, new);
                self.state.parts[p].release(last);
                if let Some(unit) = self.sequences.get_mut(&id.0).and_then(|s| s.held[p].units.last_mut()) {
                    *unit = new;
                }
            }
        }
        let path = self.prefixes.path(&tokens);
        if let Some(sequence) = self.sequences.get_mut(&id.0) {
            sequence.lost = path.len() < length / PAGE;
            sequence.node = path.last().copied();
            sequence.tokens = tokens;
        }
        Ok(length)
    }

    /// Forgets a sequence. Pages of it that stand in the tree of prefixes are there for others.
    pub fn end(&mut self, id: SequenceId) {
        let sequence = self.sequences.remove(&id.0);
        sequence.iter().for_each(|s| self.release(s));
    }

    fn release(&mut self, sequence: &Sequence) {
        for (part, held) in self.state.parts.iter_mut().zip(&sequence.held) {
            held.units.iter().for_each(|u| part.release(*u));
        }
    }

    /// How many tokens a sequence has.
    pub fn length(&self, id: SequenceId) -> usize {
        self.sequences.get(&id.0).map_or(0, |s| s.tokens.len())
    }

    /// How many tokens more the pools hold at least, whatever sequences they are of.
    pub fn room(&self) -> usize {
        let parts = self.state.parts.iter().enumerate().filter(|(_, p)| p.kept != Kept::Sequence);
        let of = |(p, part): (usize, &state::Part)| {
            // What only the tree holds is given back where it is wanted.
            let spare = self.prefixes.units(p).filter(|u| *u != GONE && !part.is_shared(*u)).count();
            (part.free() + spare) * PAGE
        };
        parts.map(of).min().unwrap_or(usize::MAX)
    }

    /// True if something of a sequence is of a fixed size, and not a page for some tokens.
    pub(crate) fn has_slots(&self) -> bool {
        self.state.parts.iter().any(|p| p.kept == Kept::Sequence)
    }

    /// A page or slot of a part; where none is free, one of a prefix that nobody has used for long.
    fn take(&mut self, part: usize) -> Result<u32, Error> {
        loop {
            if let Some(unit) = self.state.parts[part].take() {
                return Ok(unit);
            }
            if self.state.parts[part].kept == Kept::Sequence {
                let slot = self.prefixes.forget_checkpoint(part).ok_or_else(full)?;
                self.state.parts[part].release(slot);
                continue;
            }
            let held = self.prefixes.forget_leaf().ok_or_else(full)?;
            for (part, unit) in self.state.parts.iter_mut().zip(held) {
                unit.into_iter().for_each(|u| part.release(u));
            }
        }
    }

    /// A second sequence with the tokens of a first. Full pages are shared.
    pub fn fork(&mut self, id: SequenceId) -> Result<SequenceId, Error> {
        let Some(of) = self.sequences.get(&id.0).cloned() else { return Err(ended(id)) };
        let copy = self.begin();
        // Held by the copy from the first on, so that whatever fails, it gives them back.
        let mut new = Sequence { held: vec![Held::default(); of.held.len()], ..of.clone() };
        let partly = !of.tokens.len().is_multiple_of(PAGE);
        let mut made = Ok(());
        for (p, part) in of.held.iter().enumerate() {
            for (k, unit) in part.units.iter().enumerate() {
                let last = k + 1 == part.units.len();
                let own = match self.state.parts[p].kept {
                    Kept::Sequence => true,
                    Kept::Token { .. } => last && partly,
                };
                if !own {
                    self.state.parts[p].share(*unit);
                    new.held[p].units.push(*unit);
                    continue;
                }
                match self.take(p) {
                    Ok(unit_of_copy) => {
                        self.copy(p, *unit, unit_of_copy);
                        new.held[p].units.push(unit_of_copy);
                    }
                    Err(e) => made = Err(e),
                }
            }
        }
        self.sequences.insert(copy.0, new);
        if let Err(e) = made {
            self.end(copy);
            return Err(e);
        }
        Ok(copy)
    }

    fn copy(&mut self, part: usize, from: u32, to: u32) {
        for leaf in self.state.parts[part].leaves.clone() {
            if let Some(t) = self.state.tensors.get_mut(&leaf) {
                state::copy(t, from, to);
            }
        }
    }

    /// Runs a step; gives the logits of the rows wanted, in the order of the rows. Whatever is wrong with one sequence
    /// is wrong with the step; what logits are is not asked.
    pub fn step(&mut self, batch: &[Rows<'_>], limits: &Limits) -> Result<Tensor, Error> {
        // What has no row is not written.
        let batch: Vec<Rows<'_>> = batch.iter().filter(|r| !r.tokens.is_empty()).cloned().collect();
        let batch = &batch[..];
        for k in 0..batch.len() {
            self.allowed(batch, k)?;
        }
        let done =
            batch.iter().try_for_each(|rows| self.extend(rows)).and_then(|()| self.timed(batch, limits));
        match done {
            Ok(logits) => {
                batch.iter().for_each(|rows| self.settle(rows));
                Ok(logits)
            }
            Err(e) => {
                batch.iter().for_each(|rows| self.restore(rows));
                Err(e)
            }
        }
    }

    /// Runs a step; gives for each sequence the logits of its rows that are wanted, `f32[wanted, vocab]`, or why it has
    /// none: it has ended or stands twice, a token is not of the vocabulary, no page is free, or logits are no numbers.
    /// Such a sequence stands as it did before, and the others go on. A step that fails as a whole, as one that was
    /// cancelled, is an error, and all stand as they did.
    pub fn step_each(
        &mut self,
        batch: &[Rows<'_>],
        limits: &Limits,
    ) -> Result<Vec<Result<Tensor, Error>>, Error> {
        let mut out: Vec<Result<Tensor, Error>> = Vec::new();
        for (k, rows) in batch.iter().enumerate() {
            let vocab = self.vocab as i64;
            let begun = self.allowed(batch, k).and_then(|()| self.known(rows)).and_then(|()| {
                let begun = self.extend(rows);
                if begun.is_err() {
                    self.restore(rows);
                }
                begun
            });
            out.push(begun.and_then(|()| Ok(Tensor::zeros(DType::F32, &[0, vocab])?)));
        }
        let (places, these): (Vec<usize>, Vec<Rows<'_>>) = batch
            .iter()
            .cloned()
            .enumerate()
            .filter(|(k, r)| out[*k].is_ok() && !r.tokens.is_empty())
            .unzip();
        if these.is_empty() {
            return Ok(out);
        }
        let logits = match self.timed(&these, limits) {
            Ok(logits) => logits,
            Err(e) => {
                these.iter().for_each(|rows| self.restore(rows));
                return Err(e);
            }
        };
        let all = logits.as_f32().unwrap_or(&[]);
        let width = logits.shape().get(1).map_or(0, |n| usize::try_from(*n).unwrap_or(0));
        let mut from = 0;
        for (place, rows) in places.into_iter().zip(&these) {
            let wanted = rows.wanted.min(rows.tokens.len());
            let own = all.get(from * width..(from + wanted) * width).unwrap_or(&[]);
            from += wanted;
            let first = self.length(rows.sequence) + rows.tokens.len() - wanted;
            out[place] = match own.chunks(width.max(1)).position(|row| !is_numbers(row)) {
                None => Ok(Tensor::from_f32(&[wanted as i64, width as i64], own)?),
                Some(k) => Err(no_numbers(first + k)),
            };
            match &out[place] {
                Ok(_) => self.settle(rows),
                Err(_) => self.restore(rows),
            }
        }
        Ok(out)
    }

    /// A step of one sequence, as [`step_each`](Engine::step_each) does it.
    pub(crate) fn step_one(&mut self, rows: Rows<'_>, limits: &Limits) -> Result<Tensor, Error> {
        let done = self.step_each(&[rows], limits)?.pop();
        done.unwrap_or_else(|| Err(Error::message("E0601", "a step has rows".to_owned())))
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

    fn timed(&mut self, batch: &[Rows<'_>], limits: &Limits) -> Result<Tensor, Error> {
        let inputs = self.tensors(batch)?;
        let most = [limits.memory, self.budget].into_iter().flatten().min();
        let limits = Limits { memory: most, ..limits.clone() };
        let begun = Instant::now();
        let done = self.run(inputs, &limits);
        self.counts.step(begun.elapsed(), done.is_ok());
        done
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
        let Some(node) = node.filter(|_| ends && from < to) else { return };
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

    /// The inputs of a step that are not pools, by parameter.
    fn tensors(&self, batch: &[Rows<'_>]) -> Result<BTreeMap<usize, Tensor>, Error> {
        let numbers = |values: Vec<i32>| -> Result<Tensor, Error> {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            Ok(Tensor::from_bytes(DType::I32, &[values.len() as i64], &bytes)?)
        };
        let by_row = |f: &dyn Fn(usize, &Rows<'_>, usize) -> i32| -> Vec<i32> {
            let rows = batch.iter().enumerate();
            rows.flat_map(|(s, r)| (0..r.tokens.len()).map(move |k| (s, r, k)))
                .map(|(s, r, k)| f(s, r, k))
                .collect()
        };
        let of = |r: &Rows<'_>| &self.sequences[&r.sequence.0];
        let mut out = BTreeMap::new();
        for (i, input) in self.inputs.iter().enumerate() {
            let tensor = match input {
                Input::Leaf => continue,
                Input::Tokens => numbers(by_row(&|_, r, k| r.tokens[k] as i32))?,
                Input::Sequence => numbers(by_row(&|s, _, _| s as i32))?,
                Input::Position => numbers(by_row(&|_, r, k| (of(r).tokens.len() + k) as i32))?,
                Input::Last => {
                    let mut start = 0;
                    let mut last = Vec::new();
                    for r in batch {
                        let end = start + r.tokens.len();
                        last.extend((end - r.wanted.min(r.tokens.len())..end).map(|k| k as i32));
                        start = end;
                    }
                    numbers(last)?
                }
                Input::Table(p) => {
                    let units = |r: &Rows<'_>| &of(r).held[*p].units;
                    let span = batch.iter().map(|r| units(r).len()).max().unwrap_or(0);
                    let mut table: Vec<i32> = Vec::new();
                    for r in batch {
                        let pages = units(r).iter().map(|u| if *u == GONE { 0 } else { *u as i32 });
                        table.extend(pages);
                        table.resize(table.len() + span - units(r).len(), 0);
                    }
                    let bytes: Vec<u8> = table.iter().flat_map(|v| v.to_le_bytes()).collect();
                    Tensor::from_bytes(DType::I32, &[batch.len() as i64, span as i64], &bytes)?
                }
                // A sequence without tokens has nothing to read.
                Input::From(p) => {
                    let from = |r: &Rows<'_>| match of(r).held[*p].units.as_slice() {
                        [read, _] => *read as i32,
                        _ => -1,
                    };
                    numbers(batch.iter().map(from).collect())?
                }
                Input::To(p) => {
                    let to = |r: &Rows<'_>| of(r).held[*p].units.last().map_or(-1, |u| *u as i32);
                    numbers(batch.iter().map(to).collect())?
                }
            };
            out.insert(i, tensor);
        }
        Ok(out)
    }

    fn run(&mut self, mut inputs: BTreeMap<usize, Tensor>, limits: &Limits) -> Result<Tensor, Error> {
        let mut args: Vec<Arg<'_>> = Vec::new();
        let mut pools = self.state.tensors.iter_mut();
        for (i, input) in self.inputs.iter().enumerate() {
            args.push(match input {
                // Pools stand in the order of the parameters.
                Input::Leaf => match pools.next() {
                    Some((_, t)) => Arg::Updated(t),
                    None => continue,
                },
                Input::Tokens
                | Input::Sequence
                | Input::Position
                | Input::Last
                | Input::Table(_)
                | Input::From(_)
                | Input::To(_) => match inputs.remove(&i) {
                    Some(t) => Arg::Given(t),
                    None => continue,
                },
            });
        }
        let mut results = self.step.update(args, limits)?.into_iter();
        let Some(Output::New(logits)) = results.next() else {
            return Err(Error::message("E0605", "a step gives logits first".to_owned()));
        };
        // What of the state is not where it was takes its place.
        let leaves = self
            .inputs
            .iter()
            .enumerate()
            .filter(|(_, i)| matches!(i, Input::Leaf | Input::Table(_) | Input::From(_) | Input::To(_)));
        for ((i, input), result) in leaves.zip(results) {
            if let (Input::Leaf, Output::New(t)) = (input, result) {
                self.state.tensors.insert(i, t);
            }
        }
        Ok(logits)
    }
}

fn unknown(name: &str, ty: &str) -> Error {
    let text = format!(
        "step asks for {name}: {ty}; an engine gives tokens, at.sequence, at.position, last, and what a state keeps"
    );
    Error::message("E0605", text)
}

fn ended(id: SequenceId) -> Error {
    Error::message("E0601", format!("sequence {} has ended", id.0))
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

fn full() -> Error {
    Error::message("E0602", "no page is free for the tokens of a step".to_owned())
}
