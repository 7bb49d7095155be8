//! Arenas: the memory that a call takes at once, and what lies where in it.
//!
//! A function says how large each of its regions is, over the ints it is given, and when it lives. For the ints of
//! a call the regions are fitted into one block ([`offsets`]); the fit is remembered under the ints that sizes depend
//! on, so that a shape seen before costs a comparison. A shape not seen before may use a fit made for another, where
//! every region is large enough and little is wasted; fits are therefore made for sizes rounded up a little, and a
//! sequence that grows step by step is fitted a few dozen times for each doubling, not at every step.

use std::collections::HashMap;
use std::ops::Range;

use super::error::Trap;
use super::memory::Handle;
use super::offsets::{self, Item};
use super::{Executable, State, kernel};
use crate::program::{Function, Region};
use tensor::abi::Step;

/// Fits that a context remembers; past this it forgets all of them before its next run.
const REMEMBERED: usize = 1024;

/// Sizes are rounded up to so many steps for each doubling, if they are larger than so many lines.
const STEPS: usize = 64;

const LINE: usize = 64;

/// The arena of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arena {
    pub(crate) slot: Handle,
    placement: u32,
}

/// What is known of a function's regions before it is called.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The ints that sizes depend on.
    ints: Vec<u32>,
}

impl Layout {
    pub(crate) fn new(f: &Function) -> Layout {
        let mut ints: Vec<u32> = f
            .regions
            .iter()
            .flat_map(|r| &r.bytes)
            .filter_map(|s| if let Step::Int(i) = s { Some(*i) } else { None })
            .collect();
        ints.sort_unstable();
        ints.dedup();
        Layout { ints }
    }
}

/// Where regions lie.
#[derive(Debug)]
pub(crate) struct Placement {
    regions: Vec<Range<usize>>,
    total: usize,
}

impl Placement {
    /// A region's bytes, if there are as many.
    pub(crate) fn room(&self, region: u32, len: usize) -> Option<Range<usize>> {
        self.regions.get(region as usize).filter(|r| r.len() >= len).cloned()
    }
}

/// The fits that a context remembers.
#[derive(Debug, Default)]
pub(crate) struct Placements {
    all: Vec<Placement>,
    /// By function: what it is for.
    functions: Vec<FitCache>,
    key: Vec<i64>,
    fits: u64,
}

/// A placement, and the least that any needs for the sizes at hand.
#[derive(Clone, Copy, Debug)]
struct Found {
    placement: u32,
    least: usize,
}

/// The fits of a function.
#[derive(Debug, Default)]
struct FitCache {
    by_ints: HashMap<Vec<i64>, Found>,
    /// The newest last.
    fits: Vec<u32>,
    last: Option<(Vec<i64>, Found)>,
}

impl Placements {
    pub(crate) fn get(&self, arena: Arena) -> &Placement {
        &self.all[arena.placement as usize]
    }

    pub(crate) fn fits(&self) -> u64 {
        self.fits
    }

    /// Forgets everything if there is much; only while no frame is open.
    pub(crate) fn trim(&mut self) {
        let known: usize = self.functions.iter().map(|k| k.by_ints.len()).sum();
        if known > REMEMBERED {
            self.all.clear();
            self.functions.clear();
        }
    }

    /// The placement of a function's regions for the ints it is called with.
    fn find(&mut self, index: usize, function: &Function, layout: &Layout, ints: &[i64]) -> Found {
        if self.functions.len() <= index {
            self.functions.resize_with(index + 1, FitCache::default);
        }
        self.key.clear();
        self.key.extend(layout.ints.iter().map(|&i| ints[i as usize]));
        let known = &mut self.functions[index];
        if let Some((key, number)) = &known.last
            && *key == self.key
        {
            return *number;
        }
        let number = known.by_ints.get(&self.key).copied().unwrap_or_else(|| {
            let sizes = sizes(&function.regions, ints);
            let fitting = known.fits.iter().rev().copied();
            let found = fitting.take(8).find(|&n| self.all[n as usize].serves(&sizes, &function.regions));
            let placement = found.unwrap_or_else(|| {
                self.fits += 1;
                self.all.push(Placement::fit(&function.regions, &sizes));
                let number = self.all.len() as u32 - 1;
                known.fits.push(number);
                number
            });
            let least = offsets::peak_live(&items(&function.regions, sizes.iter().copied()));
            let found = Found { placement, least };
            known.by_ints.insert(self.key.clone(), found);
            found
        });
        match &mut known.last {
            Some((key, n)) => {
                key.clone_from(&self.key);
                *n = number;
            }
            none => *none = Some((self.key.clone(), number)),
        }
        number
    }
}

impl Placement {
    fn fit(regions: &[Region], sizes: &[usize]) -> Placement {
        let items = items(regions, sizes.iter().map(|s| rounded(*s)));
        let fit = offsets::assign(&items);
        let regions = fit.starts.iter().zip(&items).map(|(&start, i)| start..start + i.size).collect();
        Placement { regions, total: fit.total }
    }

    /// Whether it has room for these sizes and wastes little on them.
    fn serves(&self, sizes: &[usize], regions: &[Region]) -> bool {
        let fits = self.regions.iter().zip(sizes).all(|(r, s)| *s <= r.len());
        let least = offsets::peak_live(&items(regions, sizes.iter().copied()));
        fits && self.total <= least + least / 32 + LINE * regions.len()
    }
}

impl Function {
    /// The bytes of its arena for the ints it is called with, and the least that any placement of its regions needs.
    pub fn arena(&self, ints: &[i64]) -> (usize, usize) {
        let sizes = sizes(&self.regions, ints);
        let least = offsets::peak_live(&items(&self.regions, sizes.iter().copied()));
        (Placement::fit(&self.regions, &sizes).total, least)
    }
}

fn items(regions: &[Region], sizes: impl Iterator<Item = usize>) -> Vec<Item> {
    regions.iter().zip(sizes).map(|(r, size)| Item { size, from: r.from, to: r.to }).collect()
}

/// The sizes of regions, whole lines; 0 for one whose size cannot be said, which the pool will serve.
fn sizes(regions: &[Region], ints: &[i64]) -> Vec<usize> {
    let mut steps = Vec::new();
    let mut size = |r: &Region| {
        let bytes = usize::try_from(kernel::eval(&r.bytes, ints, &mut steps).ok()?).ok()?;
        bytes.checked_next_multiple_of(LINE).filter(|b| *b <= isize::MAX as usize / 4)
    };
    let sizes: Vec<usize> = regions.iter().map(|r| size(r).unwrap_or(0)).collect();
    // Together they must be a number, too.
    let sum =
        sizes.iter().try_fold(0usize, |sum, s| sum.checked_add(*s)).filter(|s| *s < isize::MAX as usize / 4);
    if sum.is_some() { sizes } else { vec![0; regions.len()] }
}

/// A size up to the next of [`STEPS`] for each doubling.
fn rounded(size: usize) -> usize {
    let step = (size.next_power_of_two() / 2 / STEPS).max(LINE);
    size.next_multiple_of(step)
}

/// Gives the newest frame its arena.
pub(crate) fn open(exe: &Executable, state: &mut State) -> Result<(), Trap> {
    let State { stacks, memory, placements, .. } = state;
    let Some(frame) = stacks.frames.last_mut() else { return Ok(()) };
    let function = &exe.program.functions[frame.function];
    if function.regions.is_empty() {
        return Ok(());
    }
    let ints = &stacks.ints[frame.ints()..];
    let Found { placement, least } =
        placements.find(frame.function, function, &exe.layouts[frame.function], ints);
    let total = placements.all[placement as usize].total;
    if total > 0 {
        let slot = memory.arena(total, least, function.regions.len())?;
        frame.arena = Some(Arena { slot, placement });
    }
    Ok(())
}
