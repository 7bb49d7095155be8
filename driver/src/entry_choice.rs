//! The entry point, and which instance of a generic definition it is: what its arguments tell, or what is chosen by
//! hand, `f<i32, 3>`.

use std::collections::BTreeMap;
use std::path::Path;

use check::{Choice, Instance, Request};
use ir::FuncId;
use ir::ast::{GenericKind, ItemKind, RecordDef, Signature, TypeExpr, TypeKind};
use shape::{Expr as Dim, Sym};

use crate::library::Library;
use crate::{Failure, Front, data, entry};

/// An entry.
#[derive(Debug)]
pub struct Entry {
    /// The function.
    pub id: FuncId,
    /// What nobody chose, in words; none where all is known.
    pub note: Option<String>,
}

/// The entry of a program, by name or by custom, as it is called from outside with the arguments given.
pub fn choose(front: &mut Front, name: Option<&str>, given: &[String]) -> Result<Entry, Failure> {
    let found = instance(front, name, given)?;
    let wants_config = front.module.func(found.id).params.iter().any(|p| p.name.name() == "config");
    let given = if wants_config { &[] } else { given };
    let known = data::settled(&front.module.settings, given)?;
    settle(front, known);
    let id = entry::settled(&mut front.module, found.id, &front.known)?;
    Ok(Entry { id: entry::callable(&mut front.module, id), ..found })
}

/// Compiles a program for the dims that a config's file gives: `{ "hidden": 896, .. }`.
pub fn configure(front: &mut Front, file: &Path) -> Result<(), Failure> {
    let known = data::settled(&front.module.settings, &[format!("config={}", file.display())])?;
    settle(front, known);
    Ok(())
}

pub(crate) fn settle(front: &mut Front, known: BTreeMap<Sym, i64>) {
    for s in front.module.settings.iter_mut().filter(|s| s.is.is_none()) {
        s.is = known.get(&s.name).map(|n| Dim::int(*n));
    }
    front.known.extend(known);
}

/// The same as the program has it.
pub(crate) fn instance(front: &mut Front, name: Option<&str>, given: &[String]) -> Result<Entry, Failure> {
    let (name, listed) = match name.and_then(|n| n.split_once('<')) {
        Some((base, list)) => (Some(base.trim()), choices(list)?),
        None => (name, vec![]),
    };
    let mut id = entry::find(front, name)?;
    let shown = front.module.func(id).name.clone();
    let span = front.module.func(id).span;
    let signature = signature(front, span);
    let generic = signature.as_ref().is_some_and(|s| is_generic(front, s));
    let chosen = !given.is_empty() || !listed.is_empty();
    let (true, Some(sig)) = (generic && chosen, signature) else {
        if !listed.is_empty() {
            let text = format!("-e: `{shown}` is not generic over element types or ranks");
            return Err(Failure::Usage(text));
        }
        return Ok(Entry { id, note: None });
    };
    let wanted = data::wanted(front.module.func(id));
    let args = data::shown(given, &wanted, &front.module.settings)?;
    let request = Request { at: sig.name.span, args, listed };
    let (checked, entered) = check::check_entry(&Library::get().all, &front.files, &request);
    if !checked.ok() {
        return Err(Failure::Diagnostics(checked.diagnostics));
    }
    let mut note = None;
    if let Some(entered) = entered {
        front.module = checked.module;
        id = match entered.id {
            Instance::Func(id) => id,
            Instance::Prim(prim) => entry::wrap(&mut front.module, prim),
        };
        rename(front, id, &shown);
        let open: Vec<String> = entered.open.iter().map(|(name, c)| taken(name.name(), *c)).collect();
        if !open.is_empty() {
            let list = example(&sig, &entered.open);
            let hint = match list.as_str() {
                "" => String::new(),
                list => format!("; choose with `-e '{shown}<{list}>'`"),
            };
            note = Some(format!("{shown} is generic, and nothing tells {}{hint}", open.join(", ")));
        }
    }
    Ok(Entry { id, note })
}

/// What is generic among some entries that nobody chose instances of, in words.
pub fn notes(front: &Front, entries: &[FuncId]) -> Vec<String> {
    let mut out = Vec::new();
    for &id in entries {
        let func = front.module.func(id);
        let Some(sig) = signature(front, func.span).filter(|s| is_generic(front, s)) else { continue };
        let types: Vec<String> =
            func.body.params.iter().map(|v| format!("{}: {}", func.val(*v).name, func.ty(*v))).collect();
        let form: Vec<&str> = sig
            .generics
            .iter()
            .filter(|g| g.kind != GenericKind::Dim)
            .map(|g| if g.kind == GenericKind::Pack { "3" } else { "f16" })
            .collect();
        let mut text =
            format!("{} is generic: this is its instance for ({})", sig.name.name, types.join(", "));
        if !form.is_empty() {
            text += &format!("; choose another with `-e '{}<{}>'`", sig.name.name, form.join(", "));
        }
        out.push(text);
    }
    out
}

fn choices(list: &str) -> Result<Vec<Choice>, Failure> {
    let wrong =
        |t: &str| Failure::Usage(format!("-e: `{t}` is neither an element type nor a number of axes"));
    let Some(list) = list.trim().strip_suffix('>') else {
        return Err(Failure::Usage("-e: a `>` is missing".to_owned()));
    };
    let one = |t: &str| {
        let is_name = t.starts_with(|c: char| c.is_ascii_lowercase())
            && t.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let elem = is_name.then(|| Choice::Elem(Sym::new(t)));
        elem.or_else(|| t.parse().ok().map(Choice::Rank)).ok_or_else(|| wrong(t))
    };
    list.split(',').map(|t| one(t.trim())).collect()
}

fn taken(name: &str, c: Choice) -> String {
    match c {
        Choice::Elem(d) => format!("`{name}`, taken for {d}"),
        Choice::Rank(r) => format!("`{name}`, taken for {}", ir::diag::count_of(r, "axis", "axes")),
    }
}

/// The list that chooses what was taken.
fn example(sig: &Signature, open: &[(Sym, Choice)]) -> String {
    let list = sig.generics.iter().filter(|g| g.kind != GenericKind::Dim).map(|g| {
        match open.iter().find(|o| o.0 == g.name.name) {
            Some((_, Choice::Elem(d))) => d.to_string(),
            Some((_, Choice::Rank(r))) => r.to_string(),
            None => "..".to_owned(),
        }
    });
    list.collect::<Vec<_>>().join(", ")
}

/// The signature of the program's own definition at a place.
fn signature(front: &Front, span: ir::source::Span) -> Option<Signature> {
    front.files.own.iter().flat_map(|f| &f.items).find_map(|i| {
        let sig = if let ItemKind::Fn(d) = &i.kind {
            &d.sig
        } else if let ItemKind::Prim(d) = &i.kind {
            &d.sig
        } else {
            return None;
        };
        (sig.name.span == span).then(|| sig.clone())
    })
}

/// True for a signature with element types or packs to choose, its own or those of its records.
fn is_generic(front: &Front, sig: &Signature) -> bool {
    let items = front.files.own.iter().chain(&front.files.modules).flat_map(|f| &f.items);
    let records: Vec<&RecordDef> =
        items.filter_map(|i| if let ItemKind::Record(d) = &i.kind { Some(d) } else { None }).collect();
    sig.generics.iter().any(|g| g.kind != GenericKind::Dim)
        || sig.params.iter().filter_map(|p| p.ty.as_ref()).any(|t| leaves_open(t, &records, 0))
}

/// How deeply records hold records.
const DEEPEST: usize = 64;

/// True for a type that leaves an element type open: of a record whose generics it does not say, or of `any`.
fn leaves_open(t: &TypeExpr, records: &[&RecordDef], depth: usize) -> bool {
    match &t.kind {
        TypeKind::Named { name, args, dims } => {
            let any = name.name.name() == "any" && dims.is_some() && depth > 0;
            let open = |r: &&RecordDef| {
                r.name.name == name.name
                    && (r.generics.iter().skip(args.len()).any(|g| g.kind == GenericKind::DType)
                        || depth < DEEPEST && r.fields.iter().any(|f| leaves_open(&f.ty, records, depth + 1)))
            };
            any || records.iter().any(open)
        }
        TypeKind::Tuple(parts) => parts.iter().any(|t| leaves_open(t, records, depth)),
        TypeKind::Array(of, _) => leaves_open(of, records, depth),
        TypeKind::Dim(_) | TypeKind::Fn(..) | TypeKind::Exists(..) => false,
    }
}

/// Gives a function the name by which it was asked for; what had it gets the other's.
pub(crate) fn rename(front: &mut Front, id: FuncId, name: &str) {
    let old = std::mem::replace(&mut front.module.funcs[id.0 as usize].name, name.to_owned());
    for (i, f) in front.module.funcs.iter_mut().enumerate() {
        if f.name == name && i != id.0 as usize {
            f.name.clone_from(&old);
        }
    }
}
