//! Records made complete: what their fields leave out becomes generics of the record.
//!
//! - `q: any[n, k]` has a generic element type of its own, `q.E`.
//! - `layers: [Layer; k]` of a generic `Layer` has the generics of `Layer`, called `layers.E` and so on.
//! - A part of a state (`full: Kv<f32, layers, heads, d> by token`) has at the end of its generics those that are
//!   the keeper's: by token the pages of this part, the tokens a page, the sequences of a step and the pages of each;
//!   by sequence the slots of this part and the sequences of a step. The tokens a page and the sequences are the same
//!   for all parts.

use std::collections::HashMap;

use ir::ast::{Generic, GenericKind, Ident, RecordDef, TypeExpr, TypeKind};
use ir::diag::Diagnostic;
use shape::Sym;

use super::left_out;

/// Makes every record complete; gives the names of those that were changed.
pub(super) fn complete(records: &mut HashMap<Sym, RecordDef>) -> (Vec<Ident>, Vec<Diagnostic>) {
    let mut names: Vec<Ident> = records.values().map(|d| d.name).collect();
    names.sort_by_key(|n| n.span);
    let mut pass = Pass { records, done: Vec::new(), changed: Vec::new(), said: Vec::new() };
    names.into_iter().for_each(|n| pass.record(n));
    (pass.changed, pass.said)
}

struct Pass<'r> {
    records: &'r mut HashMap<Sym, RecordDef>,
    /// Those looked at: one that holds itself is somebody else's to refuse.
    done: Vec<Sym>,
    changed: Vec<Ident>,
    said: Vec<Diagnostic>,
}

impl Pass<'_> {
    fn record(&mut self, name: Ident) {
        if self.done.contains(&name.name) {
            return;
        }
        self.done.push(name.name);
        let Some(mut def) = self.records.get(&name.name).cloned() else { return };
        let own = def.generics.len();
        for i in 0..def.fields.len() {
            let field = def.fields[i].name;
            let kept = def.fields[i].kept.as_ref().map(|k| k.by.name.name().to_owned());
            let mut ty = def.fields[i].ty.clone();
            if let Some(by) = &kept {
                self.keeper(&mut ty, field, by, &mut def.generics);
            }
            self.open(&mut ty, field, &mut def.generics);
            def.fields[i].ty = ty;
        }
        let touched = def.generics.len() > own;
        if touched {
            self.changed.push(name);
            self.records.insert(name.name, def);
        }
    }

    /// Gives a field's type generics of the record for those that it leaves out.
    fn open(&mut self, t: &mut TypeExpr, field: Ident, generics: &mut Vec<Generic>) {
        let span = t.span;
        match &mut t.kind {
            TypeKind::Named { name, dims: Some(_), .. } if name.name.name() == "any" => {
                *name = fresh(generics, field, "E", GenericKind::DType, vec![]);
            }
            TypeKind::Named { name, args, .. } => {
                let Some(def) = self.records.get(&name.name) else { return };
                let at = def.name;
                self.record(at);
                let def = &self.records[&name.name];
                if generics.iter().any(|g| g.name.name == name.name) || !left_out(def, args) {
                    return;
                }
                for g in def.generics.iter().skip(args.len()) {
                    let name = fresh(generics, field, g.name.name.name(), g.kind, g.bounds.clone());
                    args.push(named(name, span));
                }
            }
            TypeKind::Tuple(parts) => parts.iter_mut().for_each(|t| self.open(t, field, generics)),
            TypeKind::Array(of, _) => self.open(of, field, generics),
            TypeKind::Dim(_) | TypeKind::Fn(..) | TypeKind::Exists(..) => {}
        }
    }

    /// Gives a part of a state the dims of its keeper.
    fn keeper(&mut self, t: &mut TypeExpr, field: Ident, by: &str, generics: &mut Vec<Generic>) {
        let span = t.span;
        let own: &[&str] =
            if by == "token" { &["pages", "page", "sequences", "span"] } else { &["slots", "sequences"] };
        let TypeKind::Named { name, args, dims: None } = &mut t.kind else {
            let d = Diagnostic::error("E0306", t.span, "a part of a state is a record of what is kept");
            self.said.push(d.help("as `Kv<f32, layers, heads, d>` of the library is"));
            return;
        };
        let Some(def) = self.records.get(&name.name) else { return };
        if def.generics.len() != args.len() + own.len() {
            let text = format!(
                "`{}` has {} generics; kept by {by} it needs {} here and {} at its end",
                name.name,
                def.generics.len(),
                args.len(),
                own.join(", ")
            );
            let d = Diagnostic::error("E0306", span, text).label(def.name.span, "declared here");
            self.said.push(d.help("say all generics but those of whoever keeps the state"));
            return;
        }
        for part in own {
            // What is the same for all parts is there once.
            let shared = matches!(*part, "page" | "sequences");
            let known = generics.iter().find(|g| shared && g.name.name.name() == *part).map(|g| g.name);
            let name = known.unwrap_or_else(|| {
                let of = if shared { None } else { Some(field) };
                fresh_dim(generics, of, part, field)
            });
            args.push(named(name, span));
        }
    }
}

fn fresh_dim(generics: &mut Vec<Generic>, of: Option<Ident>, part: &str, at: Ident) -> Ident {
    let text = of.map_or(part.to_owned(), |f| format!("{}.{part}", f.name));
    let name = Ident { name: Sym::new(&text), span: at.span };
    generics.push(Generic { kind: GenericKind::Dim, name, bounds: vec![] });
    name
}

fn fresh(
    generics: &mut Vec<Generic>,
    field: Ident,
    of: &str,
    kind: GenericKind,
    bounds: Vec<Ident>,
) -> Ident {
    let mut text = format!("{}.{of}", field.name);
    while generics.iter().any(|g| g.name.name.name() == text) {
        text.push('_');
    }
    let name = Ident { name: Sym::new(&text), span: field.span };
    generics.push(Generic { kind, name, bounds });
    name
}

fn named(name: Ident, span: ir::source::Span) -> TypeExpr {
    TypeExpr { kind: TypeKind::Named { name: Ident { span, ..name }, args: vec![], dims: None }, span }
}
