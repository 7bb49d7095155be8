//! What sequences keep: pools, pages and slots, as a model's `state` declares them.
//!
//! A part kept by token has a pool of pages, of which each sequence has a list; pages are counted, so that sequences
//! share them. A part kept by sequence has a pool of slots, of which each sequence has one. Nothing here knows what is
//! in them.

use std::collections::BTreeMap;

use shape::Sym;
use tensor::Tensor;

use driver::data::Wanted;
use ir::origin::{Meaning, Term, Value};

use crate::Error;

/// Tokens a page: as many as a tile of attention.
pub(crate) const PAGE: usize = 64;

/// How a part is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// By token; looked at by so many of the following ones only.
    Token { within: Option<usize> },
    /// By sequence.
    Sequence,
}

/// A part of the state.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its path: `cache.full`.
    pub(crate) name: String,
    pub(crate) kept: Kept,
    /// The parameters that are its leaves.
    pub(crate) leaves: Vec<usize>,
    /// The parameters `table`, or `from` and `to`.
    pub(crate) places: Vec<usize>,
    /// Bytes of a page, or of a slot, over all leaves.
    pub(crate) unit: usize,
    /// Who holds each page or slot.
    holders: Vec<u32>,
    free: Vec<u32>,
}

/// What a sequence has of a part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// Its pages in the order of its tokens; of slots the one it has.
    pub(crate) units: Vec<u32>,
}

/// Checkpoints of what is kept by sequence are no more.
const MOST_CHECKPOINTS: usize = 64;

/// No page: one that has been given back, as nobody looks at it any more.
pub(crate) const GONE: u32 = u32::MAX;

/// The parts of a state, and the tensors they are in, by parameter.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) parts: Vec<Part>,
    pub(crate) tensors: BTreeMap<usize, Tensor>,
}

/// What names mean that say how long something is kept.
struct Config<'c>(&'c BTreeMap<String, Value>);

impl Meaning for Config<'_> {
    fn name(&self, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }

    fn call(&self, verb: &str, _: &[Term]) -> Result<Option<Value>, String> {
        Err(format!("there is no function `{verb}` of numbers"))
    }
}

/// What an axis of a leaf is.
enum Axis {
    Pages,
    Page,
    Slots,
    Own(i64),
}

fn axis(d: &shape::Expr, config: &BTreeMap<String, Value>) -> Option<Axis> {
    if let Some(s) = d.as_sym() {
        let name = s.name();
        if name.ends_with(".pages") {
            return Some(Axis::Pages);
        } else if name.ends_with(".page") {
            return Some(Axis::Page);
        } else if name.ends_with(".slots") {
            return Some(Axis::Slots);
        }
    }
    let known = |s: Sym| config.get(s.name()).and_then(Value::as_i64);
    d.eval(&known).ok().map(Axis::Own)
}

impl State {
    /// The parts that an entry asks for, without memory yet.
    pub(crate) fn declared(wanted: &[Wanted], config: &BTreeMap<String, Value>) -> Result<State, Error> {
        let mut parts: Vec<Part> = Vec::new();
        for (i, w) in wanted.iter().enumerate() {
            let Some(how) = w.from.as_deref().and_then(|f| f.strip_prefix("by ")) else { continue };
            let Some((name, field)) = part_of(&w.name) else { continue };
            let kept = match how.split_once(" within ") {
                _ if how == "sequence" => Kept::Sequence,
                None => Kept::Token { within: None },
                Some((_, text)) => {
                    let term: Term = text.parse().map_err(|e| Error::message("E0605", e))?;
                    let within = term.eval(&Config(config)).map_err(|e| Error::message("E0605", e))?;
                    let Some(within) = within.and_then(|v| v.as_i64()) else {
                        let text = format!("{name} is kept {how}, and that has no value in the config");
                        return Err(Error::message("E0605", text));
                    };
                    // None at all is no window.
                    Kept::Token { within: usize::try_from(within).ok().filter(|n| *n > 0) }
                }
            };
            let at = parts.iter().position(|p| p.name == name).unwrap_or_else(|| {
                let (leaves, places) = (Vec::new(), Vec::new());
                let name = name.to_owned();
                parts.push(Part {
                    name,
                    kept,
                    leaves,
                    places,
                    unit: 0,
                    holders: Vec::new(),
                    free: Vec::new(),
                });
                parts.len() - 1
            });
            if matches!(field, "table" | "from" | "to") {
                parts[at].places.push(i);
            } else {
                parts[at].leaves.push(i);
                parts[at].unit += unit(w, config)?;
            }
        }
        Ok(State { parts, tensors: BTreeMap::new() })
    }

    /// How many slots more of every part have so many bytes together; a few dozen are the most.
    pub(crate) fn slots_within(&self, bytes: usize) -> usize {
        let one: usize = self.parts.iter().filter(|p| p.kept == Kept::Sequence).map(|p| p.unit).sum();
        bytes.checked_div(one).map_or(0, |n| n.min(MOST_CHECKPOINTS))
    }

    /// Bytes of all pools.
    pub(crate) fn bytes_of(&self, pages: usize, slots: usize) -> u128 {
        let of = |p: &Part| {
            let count = if p.kept == Kept::Sequence { slots } else { pages };
            p.unit as u128 * count as u128
        };
        self.parts.iter().map(of).sum()
    }

    /// Makes the pools: so many pages of each part kept by token, and so many slots.
    pub(crate) fn allocate(
        &mut self,
        wanted: &[Wanted],
        config: &BTreeMap<String, Value>,
        pages: usize,
        slots: usize,
    ) -> Result<(), Error> {
        for (i, shape) in self.shapes(wanted, config, pages, slots)? {
            self.tensors.insert(i, Tensor::zeros(wanted[i].ty.dtype, &shape)?);
        }
        for part in &mut self.parts {
            let count = if part.kept == Kept::Sequence { slots } else { pages };
            part.holders = vec![0; count];
            part.free = (0..count as u32).rev().collect();
        }
        Ok(())
    }

    /// The bytes of all pools.
    pub(crate) fn bytes(&self) -> u64 {
        self.tensors.values().map(|t| t.bytes().len() as u64).sum()
    }

    /// The shapes of the pools with so many pages and slots, by parameter.
    pub(crate) fn shapes(
        &self,
        wanted: &[Wanted],
        config: &BTreeMap<String, Value>,
        pages: usize,
        slots: usize,
    ) -> Result<BTreeMap<usize, Vec<i64>>, Error> {
        let mut shapes = BTreeMap::new();
        for part in &self.parts {
            let count = if part.kept == Kept::Sequence { slots } else { pages };
            for &i in &part.leaves {
                let w = &wanted[i];
                let extent = |d: &shape::Expr| match axis(d, config) {
                    Some(Axis::Pages | Axis::Slots) => Some(count as i64),
                    Some(Axis::Page) => Some(PAGE as i64),
                    Some(Axis::Own(n)) => Some(n),
                    None => None,
                };
                let shape: Option<Vec<i64>> = w.ty.shape.iter().map(extent).collect();
                shapes.insert(i, shape.ok_or_else(|| undeclared(w))?);
            }
        }
        Ok(shapes)
    }
}

impl Part {
    /// A page or slot that nobody holds.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let unit = self.free.pop()?;
        self.holders[unit as usize] = 1;
        Some(unit)
    }

    /// One more holder.
    pub(crate) fn share(&mut self, unit: u32) {
        if unit != GONE {
            self.holders[unit as usize] += 1;
        }
    }

    /// One holder less.
    pub(crate) fn release(&mut self, unit: u32) {
        if unit == GONE {
            return;
        }
        let holders = &mut self.holders[unit as usize];
        *holders -= 1;
        if *holders == 0 {
            self.free.push(unit);
        }
    }

    /// True if a unit has several holders.
    pub(crate) fn is_shared(&self, unit: u32) -> bool {
        unit != GONE && self.holders[unit as usize] > 1
    }

    /// How many there are.
    pub(crate) fn all(&self) -> usize {
        self.holders.len()
    }

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }
}

/// `cache.full.k` is of the part `cache.full`.
fn part_of(path: &str) -> Option<(&str, &str)> {
    let (state, rest) = path.split_once('.')?;
    let end = state.len() + 1 + rest.find('.')?;
    Some((&path[..end], &path[end + 1..]))
}

/// Bytes of a leaf in one page, or one slot.
fn unit(w: &Wanted, config: &BTreeMap<String, Value>) -> Result<usize, Error> {
    let mut n = w.ty.dtype.size();
    for d in &w.ty.shape {
        let extent = match axis(d, config).ok_or_else(|| undeclared(w))? {
            Axis::Pages | Axis::Slots => 1,
            Axis::Page => PAGE,
            Axis::Own(n) => usize::try_from(n).unwrap_or(0),
        };
        let large = || Error::message("E0605", format!("{}: {} is too large", w.name, w.ty));
        n = n.checked_mul(extent).filter(|n| *n <= i32::MAX as usize).ok_or_else(large)?;
    }
    Ok(n)
}

fn undeclared(w: &Wanted) -> Error {
    let text =
        format!("{}: {} has an extent that neither the config nor the keeper of a state knows", w.name, w.ty);
    Error::message("E0605", text)
}

/// Copies one unit of a part to another, in every leaf.
pub(crate) fn copy(tensor: &mut Tensor, from: u32, to: u32) {
    // [layers, units, ..]
    let shape = tensor.shape().to_vec();
    let (Some(&layers), Some(&units)) = (shape.first(), shape.get(1)) else { return };
    let bytes = tensor.bytes_mut();
    let unit = bytes.len() / (layers * units).max(1) as usize;
    for layer in 0..layers as usize {
        let start = layer * units as usize * unit;
        let source = start + from as usize * unit;
        bytes.copy_within(source..source + unit, start + to as usize * unit);
    }
}
