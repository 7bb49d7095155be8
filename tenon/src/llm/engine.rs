//! Steps of a model over sequences: rows in, logits out, and what the sequences keep.
//!
//! A step takes rows of any number of sequences: a prompt, a part of one, the next token of each, or all of that at
//! once. Where it fails, each sequence stands as it did before; where it fails for some of them, the others go on.

use std::collections::BTreeMap;

use tensor::{DType, Tensor};

use super::prefix::{NodeId, Prefixes};
use super::state::{self, GONE, Held, Kept, PAGE, State};
use super::statistics::{Counts, Pool, Statistics};
use crate::{Error, Function};

mod step;

use step::Input;
pub use step::{Answers, Rows};

/// A model that is ready to run, with the memory of its sequences.
#[derive(Debug)]
pub struct Engine {
    step: Function,
    state: State,
    /// What the parameters are, by place, and what they were in the last step; of the leaves of a part, which stand in
    /// the state, nothing.
    inputs: Vec<(Input, Tensor)>,
    /// The places of the rows that run in a step, while there is one.
    runs: Vec<usize>,
    answers: Answers,
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
    /// Tokens of a page.
    pub const PAGE: usize = PAGE;

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
            inputs.push((input, Tensor::zeros(DType::I32, &[0])?));
        }
        let vocab =
            config.get("vocab").and_then(ir::origin::Value::as_i64).and_then(|n| usize::try_from(n).ok());
        let Some(vocab) = vocab else {
            return Err(Error::message("E0605", "the model's config says no `vocab`".to_owned()));
        };
        let prefixes = Prefixes::default();
        let (sequences, counts) = (BTreeMap::new(), Counts::now());
        let budget = None;
        Ok(Engine {
            step,
            state,
            inputs,
            runs: Vec::new(),
            answers: Answers::default(),
            sequences,
            prefixes,
            checkpoints,
            next: 0,
            vocab,
            counts,
            budget,
        })
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

    /// How many of the first of some tokens an earlier sequence computed: as many as [`begin_with`](Engine::begin_with)
    /// takes.
    pub fn computed(&mut self, tokens: &[u32]) -> usize {
        let path = self.prefixes.path(&tokens[..tokens.len().saturating_sub(1)]);
        self.depth(&path).map_or(0, |depth| (depth + 1) * PAGE)
    }

    /// The last node of a path at which all is known: what is kept by sequence is where there is a checkpoint.
    fn depth(&self, path: &[NodeId]) -> Option<usize> {
        let slots = |p: &usize| self.state.parts[*p].kept == Kept::Sequence;
        let slots: Vec<usize> = (0..self.state.parts.len()).filter(slots).collect();
        path.iter().rposition(|id| slots.iter().all(|p| self.prefixes.unit(*id, *p).is_some()))
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
        let Some(depth) = self.depth(&path) else { return Ok(()) };
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

    /// Where the next part of a prompt ends: `from` of its tokens are computed, it has `to`, and so many rows are at
    /// most computed at once. Parts end with pages, and where the last full page ends there is a checkpoint of what is
    /// kept by sequence.
    pub fn part_of_prompt(&self, from: usize, to: usize, most: usize) -> usize {
        let end = from + most.max(1);
        let page = |at: usize| at / PAGE * PAGE;
        if end < to {
            return if page(end) > from { page(end) } else { end };
        }
        let full = page(to.saturating_sub(1));
        let has_slots = self.state.parts.iter().any(|p| p.kept == Kept::Sequence);
        if has_slots && full > from { full } else { to }
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

fn full() -> Error {
    Error::message("E0602", "no page is free for the tokens of a step".to_owned())
}
