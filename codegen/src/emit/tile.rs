//! Register tiles: rows of one loop by vectors of another, and values over them.

use inkwell::types::BasicTypeEnum;
use inkwell::values::PointerValue;
use ir::loops::{Scalar, ScalarKind, Stmt, VarId};
use std::collections::BTreeMap;

use super::Emit;
use crate::Error;
use crate::format::register;
use crate::ll::{Ll, Ty, V};
use crate::prepare::assigned;

/// What is emitted for at once.
#[derive(Clone, Copy)]
pub(super) struct Tile<'c> {
    /// Iterations of the row loop.
    pub(super) rows: u32,
    /// Vectors of the lane loop.
    pub(super) vectors: u32,
    /// Lanes of each; none: there is no lane loop.
    pub(super) lanes: Option<u32>,
    /// Which lanes of the last vector exist, where not all do: its first one does, and so do all of the vectors before
    /// it.
    pub(super) mask: Option<V<'c>>,
    /// Whether it is what several vectors have left over.
    pub(super) narrow: bool,
    /// Whether the number of the first lane is a multiple of the lanes.
    pub(super) even: bool,
}

impl Tile<'_> {
    /// Plain scalar code.
    pub(super) const POINT: Tile<'static> =
        Tile { rows: 1, vectors: 1, lanes: None, mask: None, narrow: false, even: true };

    /// The number of lanes, 1 for scalars.
    pub(super) fn width(&self) -> u32 {
        self.lanes.unwrap_or(1)
    }
}

impl<'c> Tile<'c> {
    /// Which lanes of a vector exist, where not all do.
    pub(super) fn mask_of(&self, vector: u32) -> Option<V<'c>> {
        self.mask.filter(|_| vector + 1 == self.vectors)
    }
}

/// How a value changes over a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Varies {
    pub(super) rows: bool,
    pub(super) lanes: bool,
}

impl std::ops::BitOr for Varies {
    type Output = Varies;

    fn bitor(self, other: Varies) -> Varies {
        Varies { rows: self.rows || other.rows, lanes: self.lanes || other.lanes }
    }
}

/// A value over a tile: held once for all rows if the rows agree, as one scalar for all vectors if the lanes do.
#[derive(Clone, Debug)]
pub(super) struct Values<'c> {
    pub(super) varies: Varies,
    vectors: u32,
    list: Vec<V<'c>>,
}

impl<'c> Values<'c> {
    /// The same scalar everywhere.
    pub(super) fn uniform(v: V<'c>) -> Values<'c> {
        Values { varies: Varies::default(), vectors: 1, list: vec![v] }
    }

    /// A value a place of the tile that it varies over.
    pub(super) fn collect(
        tile: Tile<'c>,
        varies: Varies,
        mut f: impl FnMut(u32, u32) -> Result<V<'c>, Error>,
    ) -> Result<Values<'c>, Error> {
        let rows = if varies.rows { tile.rows } else { 1 };
        let vectors = if varies.lanes { tile.vectors } else { 1 };
        let mut list = Vec::new();
        for r in 0..rows {
            for u in 0..vectors {
                list.push(f(r, u)?);
            }
        }
        Ok(Values { varies, vectors, list })
    }

    pub(super) fn at(&self, row: u32, vector: u32) -> V<'c> {
        let row = if self.varies.rows { row } else { 0 };
        let vector = if self.varies.lanes { vector } else { 0 };
        self.list[(row * self.vectors + vector) as usize]
    }

    /// The value at the first place.
    pub(super) fn one(&self) -> V<'c> {
        self.list[0]
    }
}

/// What a variable is at the moment.
#[derive(Clone)]
pub(super) enum Slot<'c> {
    /// Without a value.
    Unset,
    /// A value that does not change in the tile: a loop variable.
    Fixed(V<'c>),
    /// The variable of a row loop, from its first row: `each` rows of the tile have the same, then comes the next;
    /// after `of` it begins again.
    Rows { base: V<'c>, each: u32, of: u32 },
    /// The variable of the lane loop, from its first lane.
    Lanes(V<'c>),
    /// Memory, one cell a place of the tile that it varies over.
    Cells { ty: BasicTypeEnum<'c>, varies: Varies, vectors: u32, cells: Vec<PointerValue<'c>> },
}

impl<'c> Slot<'c> {
    /// The cells of one row; other slots as they are.
    pub(super) fn row(&self, row: u32) -> Slot<'c> {
        match self {
            Slot::Cells { ty, varies, vectors, cells } if varies.rows => {
                let first = (row * vectors) as usize;
                let cells = cells[first..first + *vectors as usize].to_vec();
                Slot::Cells { ty: *ty, varies: Varies { rows: false, ..*varies }, vectors: *vectors, cells }
            }
            Slot::Cells { .. } | Slot::Unset | Slot::Fixed(_) | Slot::Rows { .. } | Slot::Lanes(_) => {
                self.clone()
            }
        }
    }
}

impl<'c> Emit<'_, 'c> {
    /// The value of a variable.
    pub(super) fn variable(&mut self, var: VarId) -> Result<Values<'c>, Error> {
        let ll = self.ll;
        let tile = self.tile;
        match self.slots[var.0 as usize].clone() {
            Slot::Unset => {
                Err(self.fault(format!("variable {} is read before it has a value", self.prim.var(var).name)))
            }
            Slot::Fixed(v) => Ok(Values::uniform(v)),
            Slot::Rows { base, each, of } => {
                let varies = Varies { rows: true, lanes: false };
                Values::collect(tile, varies, |r, _| Ok(ll.add(base, ll.i64(i64::from(r / each % of)))))
            }
            Slot::Lanes(base) => {
                let varies = Varies { rows: false, lanes: true };
                Values::collect(tile, varies, |_, u| {
                    let start = ll.add(base, ll.i64(i64::from(u * tile.width())));
                    Ok(ll.add(start, ll.iota(Ty::I64, tile.width())))
                })
            }
            Slot::Cells { ty, varies, vectors, cells } => {
                let cell = |r: u32, u: u32| cells[(r * vectors + u) as usize];
                Values::collect(tile, varies, |r, u| Ok(ll.read(ty, cell(r, u))))
            }
        }
    }

    /// Gives a variable that has cells its values.
    pub(super) fn assign(&mut self, var: VarId, values: &Values<'c>) {
        let dtype = self.prim.var(var).dtype;
        if !matches!(self.slots[var.0 as usize], Slot::Cells { .. }) {
            self.slots[var.0 as usize] = self.cells(crate::format::register(dtype), Varies::default());
        }
        let Slot::Cells { varies, vectors, cells, .. } = self.slots[var.0 as usize].clone() else { return };
        let lanes = if varies.lanes { self.tile.width() } else { 1 };
        for (i, cell) in cells.iter().enumerate() {
            let (r, u) = (i as u32 / vectors, i as u32 % vectors);
            self.ll.write(*cell, self.ll.splat(values.at(r, u), lanes));
        }
    }

    /// New cells for a variable that varies so in the current tile.
    pub(super) fn cells(&mut self, ty: Ty, varies: Varies) -> Slot<'c> {
        let lanes = if varies.lanes { self.tile.width() } else { 1 };
        let ty = self.ll.lanes_ty(ty, lanes);
        let rows = if varies.rows { self.tile.rows } else { 1 };
        let vectors = if varies.lanes { self.tile.vectors } else { 1 };
        let cells = (0..rows * vectors).map(|_| self.cell(ty)).collect();
        Slot::Cells { ty, varies, vectors, cells }
    }

    pub(super) fn cell(&mut self, ty: BasicTypeEnum<'c>) -> PointerValue<'c> {
        self.at_entry(|ll| ll.cell(ty))
    }

    /// Makes something where it is there once.
    pub(super) fn at_entry<T>(&self, f: impl FnOnce(&Ll<'c>) -> T) -> T {
        let here = self.ll.here();
        self.ll.at(self.entry);
        let made = f(self.ll);
        self.ll.at(here);
        made
    }

    fn slot_varies(&self, var: VarId) -> Varies {
        match &self.slots[var.0 as usize] {
            Slot::Unset | Slot::Fixed(_) => Varies::default(),
            Slot::Rows { .. } => Varies { rows: true, lanes: false },
            Slot::Lanes(_) => Varies { rows: false, lanes: true },
            Slot::Cells { varies, .. } => *varies,
        }
    }

    /// How the value of an expression changes over the tile; `more` says it of variables still without cells.
    fn varies_with(&self, s: &Scalar, more: &BTreeMap<VarId, Varies>) -> Varies {
        let of = |v: VarId| more.get(&v).copied().unwrap_or_else(|| self.slot_varies(v));
        let mut varies = Varies::default();
        s.walk(&mut |s| {
            varies = varies
                | match &s.kind {
                    ScalarKind::Var(v) => of(*v),
                    ScalarKind::Dim(d) => d.syms().iter().fold(Varies::default(), |all, sym| {
                        let var = self
                            .prim
                            .vars
                            .iter()
                            .position(|v| v.name == *sym && !self.dims.contains_key(sym));
                        all | var.map_or(Varies::default(), |i| of(VarId(i as u32)))
                    }),
                    ScalarKind::Const(_)
                    | ScalarKind::Load { .. }
                    | ScalarKind::Op(..)
                    | ScalarKind::Cast(_)
                    | ScalarKind::Choose(_)
                    | ScalarKind::Reduce { .. } => Varies::default(),
                };
        });
        varies
    }

    /// How the value of an expression changes over the tile.
    pub(super) fn varies(&self, s: &Scalar) -> Varies {
        self.varies_with(s, &BTreeMap::new())
    }

    /// Emits the statements of a nest for the current tile, with cells of the right form for what they assign.
    pub(super) fn tiled(&mut self, body: &[Stmt]) -> Result<(), Error> {
        let saved = self.slots.clone();
        let mut forms: BTreeMap<VarId, Varies> =
            assigned(body).into_iter().map(|v| (v, Varies::default())).collect();
        loop {
            let before = forms.clone();
            for s in body {
                let mut next = forms.clone();
                s.walk(&mut |s| match s {
                    Stmt::Set(v, value) => {
                        let varies = self.varies_with(value, &next);
                        next.entry(*v).and_modify(|f| *f = *f | varies);
                    }
                    // How often depends on the lane.
                    Stmt::While(c, body) => {
                        let varies = self.varies_with(c, &next);
                        assigned(body).iter().for_each(|v| {
                            next.entry(*v).and_modify(|f| *f = *f | varies);
                        });
                    }
                    Stmt::For { .. } | Stmt::If(..) | Stmt::Alloc(_) | Stmt::Store { .. } => {}
                });
                forms = next;
            }
            if forms == before {
                break;
            }
        }
        let mut sets = Vec::new();
        body.iter().for_each(|s| {
            s.walk(&mut |s| {
                if let Stmt::Set(v, _) = s {
                    sets.push(*v);
                }
            });
        });
        sets.sort_unstable();
        sets.dedup();
        for v in sets {
            self.slots[v.0 as usize] = self.cells(register(self.prim.var(v).dtype), forms[&v]);
        }
        let done = self.block(body);
        self.slots = saved;
        done
    }

    /// Emits as scalar code what happens at the first lane of one vector in one row.
    ///
    /// What `f` evaluates must not depend on values that differ between lanes, other than as the lane
    /// variable itself.
    pub(super) fn at_point<T>(
        &mut self,
        row: u32,
        vector: u32,
        f: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let tile = self.tile;
        if tile.rows == 1 && tile.lanes.is_none() {
            return f(self);
        }
        let ll = self.ll;
        let point = |slot: &Slot<'c>| match slot {
            Slot::Rows { base, each, of } => Slot::Fixed(ll.add(*base, ll.i64(i64::from(row / each % of)))),
            Slot::Lanes(base) => Slot::Fixed(ll.add(*base, ll.i64(i64::from(vector * tile.width())))),
            Slot::Cells { varies, .. } if varies.lanes => Slot::Unset,
            Slot::Cells { ty, varies, cells, .. } => {
                let cell = cells[if varies.rows { row as usize } else { 0 }];
                Slot::Cells { ty: *ty, varies: Varies::default(), vectors: 1, cells: vec![cell] }
            }
            Slot::Unset | Slot::Fixed(_) => slot.clone(),
        };
        let slots = self.slots.iter().map(point).collect();
        let saved = std::mem::replace(&mut self.slots, slots);
        let guards = std::mem::take(&mut self.guards);
        self.tile = Tile::POINT;
        let result = f(self);
        self.tile = tile;
        self.guards = guards;
        self.slots = saved;
        result
    }

    /// Emits as scalar code what happens in the first row at a lane of one vector.
    pub(super) fn at_lane<T>(
        &mut self,
        vector: u32,
        lane: V<'c>,
        f: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let at = self.slots.iter().position(|s| matches!(s, Slot::Lanes(_)));
        let Some(at) = at else { return self.at_point(0, vector, f) };
        let outside = self.slots[at].clone();
        if let Slot::Lanes(base) = &outside {
            self.slots[at] = Slot::Lanes(self.ll.add(*base, lane));
        }
        let result = self.at_point(0, vector, f);
        self.slots[at] = outside;
        result
    }

    /// Emits for one row of the tile, all its vectors.
    pub(super) fn at_row<T>(
        &mut self,
        row: u32,
        f: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let tile = self.tile;
        if tile.rows == 1 {
            return f(self);
        }
        let ll = self.ll;
        let one = |slot: &Slot<'c>| match slot {
            Slot::Rows { base, each, of } => Slot::Fixed(ll.add(*base, ll.i64(i64::from(row / each % of)))),
            Slot::Cells { .. } => slot.row(row),
            Slot::Unset | Slot::Fixed(_) | Slot::Lanes(_) => slot.clone(),
        };
        let slots = self.slots.iter().map(one).collect();
        let saved = std::mem::replace(&mut self.slots, slots);
        self.tile.rows = 1;
        let result = f(self);
        self.tile = tile;
        self.slots = saved;
        result
    }
}
