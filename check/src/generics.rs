//! Elided generics, spelled out: `w: Layer` for `w: Layer<E, n>`.
//!
//! A parameter of record type need not say the record's generics. They are written out before checking, as
//! further generics of the definition, called `w.E` and `w.n`. Types and bodies may name such a dim, as any dim of a
//! record in a body: `zeros[w.n]`; a field of that name hides it there. A result may leave them out too, where one
//! parameter alone has that type: they are that parameter's. So may a field of a record: they are further generics
//! of that record.
//!
//! A field whose elements may be stored in any way, `q: any[n, k]`, has a generic of its own for them. A part of a
//! state has the dims of whoever keeps it: how many pages there are, and so on ([`records`]).
//!
//! Nothing behind here knows the short forms. Only definitions that use them are copied.

mod records;

use std::borrow::Cow;
use std::collections::HashMap;

use ir::ast::{
    File, Generic, GenericKind, Ident, Item, ItemKind, Param, RecordDef, Signature, TypeExpr, TypeKind,
};
use ir::diag::Diagnostic;
use shape::Sym;

use crate::Files;
use crate::config::is_config;

/// Files with the generics of their signatures written out.
pub(crate) fn spell_generics<'f>(
    library: &'f [File],
    mut files: Cow<'f, Files>,
) -> (Cow<'f, [File]>, Cow<'f, Files>, Vec<Diagnostic>) {
    let mut records: HashMap<Sym, RecordDef> = HashMap::new();
    for item in library.iter().chain(&files.modules).chain(&files.own).flat_map(|f| &f.items) {
        if let ItemKind::Record(d) = &item.kind {
            records.insert(d.name.name, d.clone());
        }
    }
    let (changed, said) = records::complete(&mut records);
    let records: HashMap<Sym, &RecordDef> = records.iter().map(|(n, d)| (*n, d)).collect();
    let mut library = Cow::Borrowed(library);
    for i in 0..library.len() {
        if let Cow::Owned(new) = file(&library[i], &records, &changed) {
            library.to_mut()[i] = new;
        }
    }
    for i in 0..files.own.len() {
        if let Cow::Owned(new) = file(&files.own[i], &records, &changed) {
            files.to_mut().own[i] = new;
        }
    }
    for i in 0..files.modules.len() {
        if let Cow::Owned(new) = file(&files.modules[i], &records, &changed) {
            files.to_mut().modules[i] = new;
        }
    }
    (library, files, said)
}

fn file<'f>(file: &'f File, records: &HashMap<Sym, &RecordDef>, changed: &[Ident]) -> Cow<'f, File> {
    let short = |item: &Item| match &item.kind {
        ItemKind::Record(d) => changed.contains(&d.name),
        kind => signature(kind).is_some_and(|s| {
            let records = &visible_records(s, records);
            s.params.iter().any(|p| p.ty.as_ref().is_some_and(|t| is_short(t, records)))
        }),
    };
    if records.is_empty() || !file.items.iter().any(short) {
        return Cow::Borrowed(file);
    }
    let mut out = file.clone();
    for item in &mut out.items {
        if !short(item) {
            continue;
        }
        let (sig, ret) = match &mut item.kind {
            ItemKind::Fn(d) => (&mut d.sig, d.ret.as_mut()),
            ItemKind::Prim(d) => (&mut d.sig, None),
            ItemKind::Extern(d) => (&mut d.sig, None),
            ItemKind::Record(d) => {
                *d = records[&d.name.name].clone();
                continue;
            }
            _ => continue,
        };
        let records = &visible_records(sig, records);
        let Signature { generics, params, .. } = sig;
        params.iter_mut().for_each(|p| write_out(p, generics, records));
        if let Some(ret) = ret {
            result(ret, params, records);
        }
    }
    Cow::Owned(out)
}

/// A result whose type leaves generics out has those of the one parameter that has the type.
fn result(t: &mut TypeExpr, params: &[Param], records: &HashMap<Sym, &RecordDef>) {
    match &mut t.kind {
        TypeKind::Named { name, args, .. } => {
            if records.get(&name.name).is_none_or(|d| !left_out(d, args)) {
                return;
            }
            let given = params.iter().filter_map(|p| match &p.ty.as_ref()?.kind {
                TypeKind::Named { name: n, args, .. } if n.name == name.name => Some(args),
                _ => None,
            });
            if let [one] = given.collect::<Vec<_>>().as_slice() {
                args.clone_from(one);
            }
        }
        TypeKind::Tuple(parts) => parts.iter_mut().for_each(|t| result(t, params, records)),
        TypeKind::Array(of, _) | TypeKind::Exists(_, of) => result(of, params, records),
        TypeKind::Dim(_) | TypeKind::Fn(..) => {}
    }
}

/// The records whose names mean them in a signature: a generic hides a record of its name, as of a program's `W` the
/// library's `W`.
fn visible_records<'d>(
    sig: &Signature,
    records: &HashMap<Sym, &'d RecordDef>,
) -> HashMap<Sym, &'d RecordDef> {
    let mut seen = records.clone();
    for g in &sig.generics {
        seen.remove(&g.name.name);
    }
    seen
}

fn signature(kind: &ItemKind) -> Option<&Signature> {
    match kind {
        ItemKind::Fn(d) => Some(&d.sig),
        ItemKind::Prim(d) => Some(&d.sig),
        ItemKind::Extern(d) => Some(&d.sig),
        _ => None,
    }
}

fn is_short(t: &TypeExpr, records: &HashMap<Sym, &RecordDef>) -> bool {
    match &t.kind {
        TypeKind::Named { name, args, .. } => records.get(&name.name).is_some_and(|d| left_out(d, args)),
        TypeKind::Tuple(parts) => parts.iter().any(|p| is_short(p, records)),
        TypeKind::Array(of, _) => is_short(of, records),
        TypeKind::Dim(_) | TypeKind::Fn(..) | TypeKind::Exists(..) => false,
    }
}

/// True where the record's generics are left out, all of them; those of a config are written out already.
fn left_out(def: &RecordDef, args: &[TypeExpr]) -> bool {
    let ours = def.generics.iter().filter(|g| is_config(g)).count();
    args.len() < def.generics.len() && (args.is_empty() || args.len() == ours)
}

fn write_out(p: &mut Param, generics: &mut Vec<Generic>, records: &HashMap<Sym, &RecordDef>) {
    fn go(t: &mut TypeExpr, p: Ident, generics: &mut Vec<Generic>, records: &HashMap<Sym, &RecordDef>) {
        let span = t.span;
        match &mut t.kind {
            TypeKind::Named { name, args, .. } => {
                let Some(def) = records.get(&name.name).filter(|d| left_out(d, args)) else { return };
                for g in def.generics.iter().skip(args.len()) {
                    let mut fresh = format!("{}.{}", p.name, g.name.name);
                    while generics.iter().any(|g| g.name.name.name() == fresh) {
                        fresh.push('_');
                    }
                    let name = Ident { name: Sym::new(&fresh), span: p.span };
                    // What a record may hold, its reader takes: encodings as well as numbers.
                    let mut bounds = g.bounds.clone();
                    if bounds.is_empty() && g.kind == GenericKind::DType {
                        bounds.push(Ident { name: Sym::new("any"), span: g.name.span });
                    }
                    generics.push(Generic { kind: g.kind, name, bounds });
                    args.push(TypeExpr { kind: TypeKind::Named { name, args: vec![], dims: None }, span });
                }
            }
            TypeKind::Tuple(parts) => parts.iter_mut().for_each(|t| go(t, p, generics, records)),
            TypeKind::Array(of, _) => go(of, p, generics, records),
            TypeKind::Dim(_) | TypeKind::Fn(..) | TypeKind::Exists(..) => {}
        }
    }
    if let Some(t) = &mut p.ty {
        go(t, p.name, generics, records);
    }
}
