//! Where fields of records come from: a checkpoint's names ([`ir::origin`]), or whoever keeps a state.

use ir::ast::RecordField;
use ir::diag::Diagnostic;
use ir::graph::Type;
use ir::origin::{Origin, Term};
use shape::{Expr as Dim, Sym};

use super::{Encoded, Field};
use crate::Checker;

impl Field {
    /// Where a checkpoint has it, of a record that is read from `place`: its fields are there.
    pub(super) fn origin_under(&self, place: Option<&Origin>) -> Option<Origin> {
        let Some(place) = place else { return self.from.clone() };
        let own = self.from.clone().unwrap_or_else(|| Origin::named(self.name.name()));
        let mut out = Origin { tried: Vec::new(), default: own.default.clone() };
        for prefix in &place.tried {
            let Term::Text(prefix) = prefix else { continue };
            let dot = if prefix.is_empty() { "" } else { "." };
            out.tried.extend(own.clone().map_names(&mut |n| format!("{prefix}{dot}{n}")).tried);
        }
        Some(out)
    }
}

impl Encoded {
    /// Where a checkpoint has a field of the blocks of the tensor that it has at `whole`: as a tensor of its own, or
    /// in the bytes of each block, one field behind the other.
    pub(super) fn origin_of_field(&self, field: &str, whole: &Origin) -> Origin {
        let at = self.fields.iter().position(|f| f.0.name() == field).unwrap_or_default();
        let mut out = Origin::default();
        for t in &whole.tried {
            if let Term::Text(name) = t {
                out.tried.push(Term::Text(format!("{name}.{field}")));
            }
            // Of blocks that are the whole axis no file has the bytes in one place.
            if self.fields.iter().all(|f| f.1.shape[self.shape.len()..].iter().all(|d| d.as_int().is_some()))
            {
                out.tried.push(self.field_of(at, t));
            }
        }
        out
    }

    /// The `at`-th field in the bytes of each block of a tensor.
    pub(super) fn field_of(&self, at: usize, whole: &Term) -> Term {
        let front = self.shape.len();
        let bytes = |f: &(Sym, Type)| {
            let own = &f.1.shape[front..];
            own.iter().filter_map(Dim::as_int).product::<i64>() * f.1.dtype.size() as i64
        };
        let numbers = [
            self.fields[..at].iter().map(bytes).sum::<i64>(),
            bytes(&self.fields[at]),
            self.fields.iter().map(bytes).sum::<i64>(),
        ];
        let mut args = vec![whole.clone(), Term::Text(self.name.name().to_owned())];
        args.extend(numbers.map(Term::Int));
        args.extend(self.fields[at].1.shape[front..].iter().filter_map(Dim::as_int).map(Term::Int));
        Term::Call("field".to_owned(), args)
    }
}

impl Checker<'_> {
    /// What a field says of it. A default alone is that of the field's own name.
    pub(super) fn origin(&mut self, field: &RecordField) -> Option<Origin> {
        let mut origin = match Origin::from_source(&field.from) {
            Ok(origin) => origin,
            Err(d) => {
                self.report(*d);
                return None;
            }
        };
        if origin == Origin::default() {
            return None;
        }
        if origin.tried.is_empty() {
            origin.tried = Origin::named(field.name.name.name()).tried;
        }
        Some(origin)
    }

    /// `by token within window`, as text.
    pub(super) fn kept(&mut self, kept: &ir::ast::Kept) -> String {
        let by = kept.by.name.name();
        if !matches!(by, "token" | "sequence") || (by == "sequence" && kept.within.is_some()) {
            let text = "a state is kept by token, or by sequence";
            let d = Diagnostic::error("E0306", kept.by.span, text);
            self.report(d.help("say `by token`, `by token within n`, or `by sequence`"));
        }
        // Whoever keeps it knows the config's values.
        match kept.within.as_ref().map(Term::from_expr) {
            None => format!("by {by}"),
            Some(Ok(term)) => format!("by {by} within {term}"),
            Some(Err(d)) => {
                self.report(*d);
                format!("by {by}")
            }
        }
    }
}
