//! A program and a checkpoint, bound: the config's values and the record of weights.
//!
//! What the checkpoint says decides which instance of the entry it is: its dims are known when the program is compiled,
//! and each tensor that may be stored in any way is taken as it is stored.

use std::collections::BTreeMap;

use check::{Choice, Instance, KnownArg, Request};
use import::Checkpoint;
use ir::FuncId;
use ir::origin::Value;
use shape::Sym;
use tensor::Tensor;

use crate::data::{self, Wanted};
use crate::library::Library;
use crate::settings::{self, Source};
use crate::weights::Weights;
use crate::{Failure, Front, entry, entry_choice};

/// The parameter that is the record of weights.
pub const WEIGHTS: &str = "w";

/// An entry, bound as far as a checkpoint goes.
#[derive(Debug)]
pub struct Bound {
    /// The entry.
    pub entry: FuncId,
    /// What it asks.
    pub wanted: Vec<Wanted>,
    /// What the checkpoint gives of that.
    pub given: Vec<Option<Tensor>>,
    /// The config's values, by name.
    pub config: BTreeMap<String, Value>,
    /// The tensors of the checkpoint that no part of the record is read from.
    pub unread: Vec<String>,
}

/// A checkpoint's values of a program's config. `by_hand` stands before what the checkpoint says.
pub fn config(
    front: &Front,
    checkpoint: &Checkpoint,
    by_hand: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Value>, Failure> {
    let path = checkpoint.path().display().to_string();
    let source = Source { path, config: checkpoint.config(), checkpoint: Some(checkpoint) };
    settings::evaluate(&source, &front.module.settings, by_hand)
}

/// Binds an entry. `kept` is the element type of what is kept by token, where the program leaves that open.
pub fn bind(
    front: &mut Front,
    name: &str,
    checkpoint: &Checkpoint,
    by_hand: &BTreeMap<String, String>,
    kept: &str,
) -> Result<Bound, Failure> {
    let values = config(front, checkpoint, by_hand)?;
    let weights = Weights::new(checkpoint, &values);
    let id = instance(front, name, &weights, kept)?;
    let known = |s: &ir::Setting| Some((s.name, values.get(s.name.name())?.as_i64()?));
    let dims: BTreeMap<Sym, i64> =
        front.module.settings.iter().filter(|s| s.dtype.is_none()).filter_map(known).collect();
    // What the entry speaks of and nothing tells is missing, whatever else would be.
    let needed = &front.module.func(id).dims;
    let lacks =
        |s: &&ir::Setting| s.dtype.is_none() && needed.contains(&s.name) && !dims.contains_key(&s.name);
    if let Some(s) = front.module.settings.iter().find(lacks) {
        return Err(missing(s, checkpoint));
    }
    entry_choice::settle(front, dims.clone());
    let id = entry::settled(&mut front.module, id, &front.known)?;
    let id = entry::callable(&mut front.module, id);
    let wanted = data::wanted(front.module.func(id));
    let mut given: Vec<Option<Tensor>> = Vec::new();
    for w in &wanted {
        let setting = front.module.settings.iter().find(|s| s.name.name() == w.name);
        given.push(match (setting, values.get(&w.name)) {
            (Some(_), Some(v)) => Some(data::of_value(v, w.ty.dtype).map_err(|e| unfit(checkpoint, w, &e))?),
            (Some(s), None) => return Err(missing(s, checkpoint)),
            (None, _) => None,
        });
    }
    let within = format!("{WEIGHTS}.");
    let parts: Vec<usize> = (0..wanted.len()).filter(|&i| wanted[i].name.starts_with(&within)).collect();
    let asked: Vec<&Wanted> = parts.iter().map(|&i| &wanted[i]).collect();
    for (i, t) in parts.into_iter().zip(weights.read(WEIGHTS, &asked, &dims)?) {
        given[i] = Some(t);
    }
    let unread = weights.unread();
    Ok(Bound { entry: id, wanted, given, config: values, unread })
}

/// The instance of an entry for the element types that a checkpoint has.
fn instance(front: &mut Front, name: &str, weights: &Weights<'_>, kept: &str) -> Result<FuncId, Failure> {
    let any = entry::find(front, Some(name))?;
    let wanted = data::wanted(front.module.func(any));
    let within = format!("{WEIGHTS}.");
    let parts: Vec<&Wanted> = wanted.iter().filter(|w| w.name.starts_with(&within)).collect();
    let mut kinds = weights.kinds(WEIGHTS, &parts);
    let by_token = |w: &&Wanted| w.from.as_ref().is_some_and(|f| f.starts_with("by token"));
    kinds.extend(wanted.iter().filter(by_token).map(|w| (w.name.clone(), kept.to_owned())));
    let args: BTreeMap<String, KnownArg> =
        kinds.into_iter().map(|(path, kind)| (path, (Some(Sym::new(&kind)), None))).collect();
    let at = front.module.func(any).span;
    let request = Request { at, args, listed: Vec::<Choice>::new() };
    let (checked, entered) = check::check_entry(&Library::get().files, &front.files, &request);
    if !checked.ok() {
        return Err(Failure::Diagnostics(checked.diagnostics));
    }
    let Some(entered) = entered else { return Ok(any) };
    front.module = checked.module;
    let id = match entered.id {
        Instance::Func(id) => id,
        Instance::Prim(prim) => entry::wrap(&mut front.module, prim),
    };
    entry_choice::rename(front, id, name);
    Ok(id)
}

fn unfit(checkpoint: &Checkpoint, w: &Wanted, why: &str) -> Failure {
    Failure::data(format!("{}: {}: {} is needed: {why}", checkpoint.path().display(), w.name, w.ty))
}

fn missing(setting: &ir::Setting, checkpoint: &Checkpoint) -> Failure {
    let name = setting.name.name();
    let tried = setting.from.clone().unwrap_or_else(|| name.to_owned());
    let path = checkpoint.path().display();
    Failure::data(format!("{path}: the config has no value for {name}, looked for as {tried}"))
}
