//! What becomes of the tensors of a checkpoint where it is written anew, with matrices in another way of storage.
//!
//! Tensors keep their names, so that the text of the model finds them as before. Where a part of the record is read
//! through a verb that moves whole rows, the tensor is stored in the new way, and the verb moves rows of blocks. A
//! matrix that is transposed by its reader is stored with its axes exchanged (`turned`), so that blocks lie along the
//! rows of the reader. A tensor that is read in any other way, or by parts of which some are not stored in the new way,
//! stays as it is.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ir::origin::Term;

use super::quant::is_float;
use super::verbs::{self, Raw};
use super::{Fault, Names, Place, Weights, counts, holes, innermost, places};
use crate::data::Wanted;

/// A tensor that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub kind: String,
    /// True if its bytes have the two axes exchanged.
    pub turned: bool,
}

/// How a reader wants a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it is.
    Same,
    /// In the new way, with its axes as they are or exchanged.
    New { turned: bool },
    /// In the new way, which it cannot be stored in for this reader.
    Late,
}

impl Weights<'_> {
    /// The tensors that are `read`, for parts of the record `name`; and those that stay as they are, although one of
    /// the parts is stored in another way.
    pub(crate) fn kept(
        &self,
        name: &str,
        parts: &[Wanted],
        read: &BTreeSet<String>,
    ) -> (Vec<Kept>, Vec<String>) {
        let dims = BTreeMap::new();
        let names = Names { values: self.values, dims: &dims };
        let mut forms: BTreeMap<String, Vec<Form>> = BTreeMap::new();
        for w in parts {
            let Ok(origin) = self.origin(name, w) else { continue };
            let found = origin.tried.iter().find(|t| self.stored_kinds(t, w, &names).is_some());
            let Some((term, template)) = found.and_then(|t| Some((t, innermost(t)?))) else { continue };
            let exists = |at: &[i64]| self.stored_as(term, at, &names).is_ok();
            for at in places(&counts(w, holes(term), &names, &exists)) {
                let Ok(tensor) = (Place { at: &at, names: &names }).filled_in(template) else { continue };
                let form = match self.converted.borrow().contains(&w.name) {
                    true => {
                        self.turned(term, &tensor, &names).map_or(Form::Late, |turned| Form::New { turned })
                    }
                    false => Form::Same,
                };
                forms.entry(tensor).or_default().push(form);
            }
        }
        let (mut out, mut left) = (Vec::new(), Vec::new());
        for t in self.checkpoint.tensors().values().filter(|t| read.contains(t.name())) {
            let as_is = Kept { name: t.name().to_owned(), kind: t.kind().to_owned(), turned: t.turned() };
            let asked = forms.get(t.name()).map_or(&[][..], Vec::as_slice);
            let to = self.coder.as_ref().map_or(t.kind(), |c| c.to.as_str());
            let one = asked.first().filter(|first| asked.iter().all(|f| f == *first));
            out.push(match one {
                Some(Form::New { turned }) if t.kind() != to && !t.turned() => {
                    Kept { kind: to.to_owned(), turned: *turned, ..as_is }
                }
                _ => {
                    if t.kind() != to && asked.iter().any(|f| *f != Form::Same) {
                        left.push(t.name().to_owned());
                    }
                    as_is
                }
            });
        }
        (out, left)
    }

    /// The bytes of a tensor as it is written.
    pub(crate) fn bytes(&self, kept: &Kept) -> Result<Cow<'_, [u8]>, String> {
        let t = self.checkpoint.tensor(&kept.name).map_err(|e| e.to_string())?;
        let said = |f: Fault| match f {
            Fault::Absent(text) | Fault::Wrong(text) => text,
        };
        let raw = Raw::of(t).map_err(said)?;
        match &self.coder {
            Some(coder) if t.kind() != kept.kind => {
                let raw = if kept.turned { verbs::transpose(raw).map_err(said)? } else { raw };
                coder.coded(&raw).map(Cow::Owned)
            }
            _ => Ok(raw.bytes),
        }
    }

    /// Whether a tensor has its axes exchanged where it is stored in the new way for a term that reads it; none where
    /// it cannot be.
    fn turned(&self, term: &Term, tensor: &str, names: &Names<'_>) -> Option<bool> {
        let coder = self.coder.as_ref()?;
        let shape = self.checkpoint.tensors().get(tensor)?.shape();
        let mut verbs: Vec<(&str, &[Term])> = Vec::new();
        let mut inner = term;
        while let Term::Call(verb, args) = inner {
            verbs.push((verb, args.get(1..)?));
            inner = args.first()?;
        }
        verbs.reverse();
        if is_float(&coder.to) {
            return verbs.iter().all(|(verb, _)| *verb != "plus").then_some(false);
        }
        let whole = |n: Option<&i64>| n.is_some_and(|n| n % coder.block() == 0);
        if let Some(at) = verbs.iter().position(|(verb, _)| *verb == "transpose") {
            let before = verbs[..at].iter().all(|(verb, _)| *verb == "columns");
            let behind = verbs[at + 1..].iter().all(|(verb, _)| matches!(*verb, "rows" | "unpermute"));
            return (before && behind && shape.len() == 2 && whole(shape.first())).then_some(true);
        }
        let mut rank = shape.len();
        for (verb, args) in verbs {
            match verb {
                "rows" | "unpermute" | "flat" => {}
                "part" => rank -= 1,
                "columns" if rank > 2 => {}
                "reshape" => {
                    rank = args.len();
                    let last = args.last()?.eval(names).ok()??;
                    if !whole(last.as_i64().as_ref()) {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        whole(shape.last()).then_some(false)
    }
}
