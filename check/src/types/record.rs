//! Whether declared records make sense by themselves, used or not: names given once, generics that a record may have,
//! fields whose types exist, and an end to what holds what.

use std::collections::HashMap;

use ir::ast::{GenericKind, Ident, RecordDef};
use ir::diag::Diagnostic;
use ir::source::Span;
use shape::{Expr as Dim, Sym};
use tensor::DType;

use super::{Arg, Elem, Named, RecordId};
use crate::Checker;

/// How deeply records may hold records.
const DEEPEST: usize = 64;

impl<'a> Checker<'a> {
    /// Says what is wrong with a record itself, used or not.
    pub(crate) fn check_record(&mut self, def: &'a RecordDef) {
        let Some(Named::Record(id)) = self.types.get(def.name.name) else { return };
        if !std::ptr::eq(self.types.record(id), def) {
            return;
        }
        // A field may be called as a generic is: `layers: [Layer; layers]`.
        for names in [
            def.generics.iter().map(|g| g.name).collect::<Vec<Ident>>(),
            def.fields.iter().map(|f| f.name).collect(),
        ] {
            let mut seen: HashMap<Sym, Span> = HashMap::new();
            for name in names {
                if let Some(first) = seen.insert(name.name, name.span) {
                    let d = Diagnostic::error("E0202", name.span, format!("`{}` is given twice", name.name));
                    self.report(d.label(first, "first here"));
                }
            }
        }
        self.bounds_of_generics(&def.generics);
        for g in &def.generics {
            if g.kind == GenericKind::Pack {
                let d = Diagnostic::error(
                    "E0204",
                    g.name.span,
                    "a record is generic over dims and element types",
                );
                self.report(d.help("give it one dim an axis"));
                self.types.broken.insert(id);
            }
        }
        if self.types.broken.contains(&id) {
            return;
        }
        let mut args = Vec::new();
        for g in &def.generics {
            args.push(match g.kind {
                GenericKind::Dim | GenericKind::Pack => Arg::Dim(Dim::sym(g.name.name)),
                GenericKind::DType => {
                    let order = std::iter::once(DType::F32).chain(DType::all());
                    let d = order.into_iter().find(|&d| crate::bind::allows(g, d)).unwrap_or(DType::F32);
                    Arg::Elem(Elem::Plain(d), Sym::new(d.name()))
                }
            });
        }
        if self.record_of(id, args).is_none() {
            self.types.broken.insert(id);
        }
    }

    /// Refuses records that hold themselves, as their leaves would have no end, and those nested too deeply.
    pub(crate) fn check_recursion(&mut self) {
        self.types.find_functional();
        let count = self.types.records.len();
        let inner: Vec<Vec<usize>> = (0..count).map(|i| self.types.held_by(i)).collect();
        // How deeply each nests; none: not looked at yet.
        let mut depths: Vec<Option<usize>> = vec![None; count];
        for start in 0..count {
            // Records being looked at, from the outside in, each with how many of its parts are done.
            let mut path: Vec<(usize, usize)> = vec![(start, 0)];
            while let Some(&mut (at, ref mut done)) = path.last_mut() {
                if depths[at].is_some() {
                    path.pop();
                    continue;
                }
                let Some(&next) = inner[at].get(*done) else {
                    let depth = 1 + inner[at].iter().filter_map(|i| depths[*i]).max().unwrap_or(0);
                    depths[at] = Some(depth);
                    if depth > DEEPEST {
                        self.types.broken.insert(RecordId(at as u32));
                    }
                    if depth == DEEPEST + 1 {
                        let name = self.types.records[at].name;
                        let text = format!("the record `{}` is nested more than {DEEPEST} deep", name.name);
                        self.report(Diagnostic::error("E0105", name.span, text));
                    }
                    path.pop();
                    continue;
                };
                *done += 1;
                if let Some(from) = path.iter().position(|p| p.0 == next) {
                    let cycle: Vec<usize> = path[from..].iter().map(|p| p.0).collect();
                    self.holds_itself(&cycle);
                } else if depths[next].is_none() {
                    path.push((next, 0));
                }
            }
        }
    }

    fn holds_itself(&mut self, cycle: &[usize]) {
        let names: Vec<Ident> = cycle.iter().map(|i| self.types.records[*i].name).collect();
        let mut way: Vec<&str> = names.iter().map(|n| n.name.name()).collect();
        way.push(names[0].name.name());
        let text = format!("the record `{}` holds itself: {}", names[0].name, way.join(" holds "));
        let d = Diagnostic::error("E0315", names[0].span, text);
        self.report(d.help("a record is as many tensors as it has leaves, which must be known"));
        self.types.broken.extend(cycle.iter().map(|i| RecordId(*i as u32)));
    }
}
