//! Steps of a model over sequences: rows in, logits out, and what the sequences keep.
//!
//! A step takes rows of any number of sequences: a prompt, a part of one, the next token of each, or all of that at
//! once. Where it fails, each sequence stands as it did before.

use std::collections::BTreeMap;

use tensor::{DType, Tensor};
use vm::{Arg, Limits, Output};

use super::state::{self, GONE, Held, Kept, PAGE, State};
use crate::{Error, Function};

/// A model that is ready to run, with the memory of its sequences.
#[derive(Debug)]
pub struct Engine {
    step: Function,
    state: State,
    /// What the parameters are, by place.
    inputs: Vec<Input>,
    sequences: BTreeMap<u64, Sequence>,
    next: u64,
    vocab: usize,
}

/// A sequence of an [`Engine`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SequenceId(u64);

/// What a sequence has.
#[derive(Clone, Debug, Default)]
struct Sequence {
    length: usize,
    /// By part.
    held: Vec<Held>,
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

impl Engine {
    /// An engine for a bound `step`, with memory for so many tokens in all of so many sequences.
    pub(crate) fn new(step: Function, tokens: usize, sequences: usize) -> Result<Engine, Error> {
        let wanted: Vec<_> = step.open().cloned().collect();
        let config = step.config().clone();
        let mut state = State::declared(&wanted, &config)?;
        // Each sequence may leave a page half full.
        let pages = tokens.div_ceil(PAGE) + sequences;
        state.allocate(&wanted, &config, pages, 2 * sequences)?;
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
        Ok(Engine { step, state, inputs, sequences: BTreeMap::new(), next: 0, vocab })
    }

    /// How many tokens there are.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// A sequence without tokens.
    pub fn begin(&mut self) -> SequenceId {
        self.next += 1;
        let held = vec![Held::default(); self.state.parts.len()];
        self.sequences.insert(self.next, Sequence { length: 0, held });
        SequenceId(self.next)
    }

    /// Forgets a sequence.
    pub fn end(&mut self, id: SequenceId) {
        let Some(sequence) = self.sequences.remove(&id.0) else { return };
        for (part, held) in self.state.parts.iter_mut().zip(&sequence.held) {
            held.units.iter().for_each(|u| part.release(*u));
        }
    }

    /// How many tokens a sequence has.
    pub fn length(&self, id: SequenceId) -> usize {
        self.sequences.get(&id.0).map_or(0, |s| s.length)
    }

    /// How many tokens more the pools hold at least, whatever sequences they are of.
    pub fn room(&self) -> usize {
        let parts = self.state.parts.iter().filter(|p| p.kept != Kept::Sequence);
        parts.map(|p| p.free() * PAGE).min().unwrap_or(usize::MAX)
    }

    /// A second sequence with the tokens of a first. Full pages are shared.
    pub fn fork(&mut self, id: SequenceId) -> Result<SequenceId, Error> {
        let Some(of) = self.sequences.get(&id.0).cloned() else { return Err(ended(id)) };
        let copy = self.begin();
        let mut held: Vec<Held> = Vec::new();
        for (p, part) in of.held.iter().enumerate() {
            let (whole, last) = match (self.state.parts[p].kept, part.units.split_last()) {
                (Kept::Token { .. }, _) if of.length.is_multiple_of(PAGE) => (part.units.as_slice(), None),
                (_, Some((last, whole))) => (whole, Some(*last)),
                (_, None) => (part.units.as_slice(), None),
            };
            whole.iter().for_each(|u| self.state.parts[p].share(*u));
            let mut units = whole.to_vec();
            if let Some(last) = last {
                let Some(new) = self.state.parts[p].take() else {
                    whole.iter().for_each(|u| self.state.parts[p].release(*u));
                    held.iter().zip(&mut self.state.parts).for_each(|(h, part)| {
                        h.units.iter().for_each(|u| part.release(*u));
                    });
                    self.sequences.remove(&copy.0);
                    return Err(full());
                };
                self.copy(p, last, new);
                units.push(new);
            }
            held.push(Held { units });
        }
        self.sequences.insert(copy.0, Sequence { length: of.length, held });
        Ok(copy)
    }

    fn copy(&mut self, part: usize, from: u32, to: u32) {
        for leaf in self.state.parts[part].leaves.clone() {
            if let Some(t) = self.state.tensors.get_mut(&leaf) {
                state::copy(t, from, to);
            }
        }
    }

    /// Runs a step; gives the logits of the rows wanted, in the order of the rows.
    pub fn step(&mut self, batch: &[Rows<'_>], limits: &Limits) -> Result<Tensor, Error> {
        let mut before: Vec<(SequenceId, Sequence)> = Vec::new();
        for rows in batch {
            let Some(sequence) = self.sequences.get(&rows.sequence.0) else {
                self.restore(before);
                return Err(ended(rows.sequence));
            };
            if before.iter().any(|(id, _)| *id == rows.sequence) {
                self.restore(before);
                return Err(Error::message("E0601", "a sequence stands twice in a step".to_owned()));
            }
            before.push((rows.sequence, sequence.clone()));
        }
        for rows in batch {
            if let Err(e) = self.extend(rows.sequence, rows.tokens.len()) {
                self.restore(before);
                return Err(e);
            }
        }
        let inputs = self.tensors(batch)?;
        match self.run(inputs, limits) {
            Ok(logits) => {
                self.settle(batch, &before);
                Ok(logits)
            }
            Err(e) => {
                self.restore(before);
                Err(e)
            }
        }
    }

    /// Gives a sequence the pages of so many tokens more, and slots to write to.
    fn extend(&mut self, id: SequenceId, count: usize) -> Result<(), Error> {
        let Some(sequence) = self.sequences.get_mut(&id.0) else { return Err(ended(id)) };
        for (part, held) in self.state.parts.iter_mut().zip(&mut sequence.held) {
            match part.kept {
                Kept::Token { .. } => {
                    while held.units.len() * PAGE < sequence.length + count {
                        held.units.push(part.take().ok_or_else(full)?);
                    }
                }
                // The one that is written; what stands there before is read.
                Kept::Sequence => held.units.push(part.take().ok_or_else(full)?),
            }
        }
        Ok(())
    }

    /// Puts sequences back to what they were before a step that failed.
    fn restore(&mut self, before: Vec<(SequenceId, Sequence)>) {
        for (id, old) in before {
            let Some(now) = self.sequences.insert(id.0, old) else { continue };
            let old = &self.sequences[&id.0];
            for ((part, now), old) in self.state.parts.iter_mut().zip(&now.held).zip(&old.held) {
                now.units.iter().skip(old.units.len()).for_each(|u| part.release(*u));
            }
        }
    }

    /// Keeps what a step has made: the rows count, slots are exchanged, pages that nobody looks at any more are given
    /// back.
    fn settle(&mut self, batch: &[Rows<'_>], before: &[(SequenceId, Sequence)]) {
        for (rows, (id, old)) in batch.iter().zip(before) {
            let Some(sequence) = self.sequences.get_mut(&id.0) else { continue };
            sequence.length = old.length + rows.tokens.len();
            for (part, held) in self.state.parts.iter_mut().zip(&mut sequence.held) {
                match part.kept {
                    Kept::Sequence if held.units.len() > 1 => {
                        let read = held.units.remove(0);
                        part.release(read);
                    }
                    Kept::Token { within: Some(within) } => {
                        // A later row at `length` or behind looks back to `length - within + 1`.
                        let first = (sequence.length + 1).saturating_sub(within) / PAGE;
                        for u in held.units.iter_mut().take(first).filter(|u| **u != GONE) {
                            part.release(*u);
                            *u = GONE;
                        }
                    }
                    Kept::Sequence | Kept::Token { within: None } => {}
                }
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
                Input::Position => numbers(by_row(&|_, r, k| (of(r).length + k) as i32))?,
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

fn full() -> Error {
    Error::message("E0602", "no page is free for the tokens of a step".to_owned())
}
