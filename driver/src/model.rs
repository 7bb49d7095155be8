//! A program and a checkpoint, bound: the config's values and the record of weights.
//!
//! What the checkpoint says decides which instance of the entry it is: its dims are known when the program is compiled,
//! and each tensor that may be stored in any way is taken as it is stored.

use std::collections::{BTreeMap, BTreeSet};

use check::{Choice, Instance, KnownArg, Request};
use import::Checkpoint;
use ir::FuncId;
use ir::origin::Value;
use shape::Sym;
use tensor::Tensor;

use crate::data::{self, Wanted};
use crate::estimate;
use crate::library::Library;
use crate::settings::{self, Source};
use crate::weights::{Coder, Weights};
use crate::{Failure, Front, Options, entry, entry_choice};

/// The parameter that is the record of weights.
pub const WEIGHTS: &str = "w";

/// An entry, bound as far as a checkpoint goes.
#[derive(Debug)]
pub struct Bound {
    /// The entry.
    pub entry: FuncId,
    /// What it asks.
    pub wanted: Vec<Wanted>,
    /// What the config gives of that.
    pub given: Vec<Option<Tensor>>,
    /// The config's values, by name.
    pub config: BTreeMap<String, Value>,
    dims: BTreeMap<Sym, i64>,
    /// The tensors of the checkpoint that no part of the record is read from.
    pub unread: Vec<String>,
    /// The matrices that could not be encoded as was asked: their rows are no whole blocks.
    pub unencoded: Vec<String>,
    how: Binding,
    /// The paths of matrices that are stored as was asked.
    converted: BTreeSet<String>,
}

impl Bound {
    /// True for a parameter that weights give.
    pub fn is_weight(&self, at: usize) -> bool {
        self.wanted[at].name.starts_with(&format!("{WEIGHTS}."))
    }

    /// What reads the weights from the checkpoint that this was bound to, and tells who watches.
    pub fn reader<'b>(
        &'b self,
        checkpoint: &'b Checkpoint,
        options: &Options,
    ) -> Result<Reader<'b>, Failure> {
        let weights = Weights::new(checkpoint, &self.config).stored_by(coder(&self.how, options)?);
        let weights = weights.converting(&self.converted).watched(&options.watch, self.weights());
        Ok(Reader { bound: self, weights })
    }

    /// The bytes of all weights.
    pub fn weights(&self) -> u64 {
        let all = (0..self.wanted.len()).filter(|i| self.is_weight(*i));
        all.filter_map(|i| estimate::bytes(&self.wanted[i].ty, &self.dims)).sum()
    }
}

/// Reads weights.
pub struct Reader<'b> {
    bound: &'b Bound,
    weights: Weights<'b>,
}

impl Reader<'_> {
    /// The weights for some parameters.
    pub fn read(&self, places: &[usize]) -> Result<Vec<Tensor>, Failure> {
        let asked: Vec<&Wanted> = places.iter().map(|&i| &self.bound.wanted[i]).collect();
        self.weights.read(WEIGHTS, &asked, &self.bound.dims)
    }
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

/// What is not a checkpoint's to say of its model.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Values of the config that stand before the checkpoint's.
    pub config: BTreeMap<String, String>,
    /// The element type of what is kept by token, where the program leaves that open.
    pub kept: String,
    /// How matrices that may be stored in any way are, if not as the checkpoint has them: `f32`, `bf16`, or an encoding
    /// that the library has a quantizer for, `q8_0`.
    pub quant: Option<String>,
    /// Threads that encode; none: as many as other kernels have.
    pub threads: Option<usize>,
}

impl Default for Binding {
    fn default() -> Binding {
        Binding { config: BTreeMap::new(), kept: "f32".to_owned(), quant: None, threads: None }
    }
}

/// Binds an entry, but for its weights, which a [`Reader`] gives: of the checkpoint only the names, types and shapes of
/// its tensors are looked at.
pub fn bind(front: &mut Front, name: &str, checkpoint: &Checkpoint, how: &Binding) -> Result<Bound, Failure> {
    let values = config(front, checkpoint, &how.config)?;
    let weights = Weights::new(checkpoint, &values).stored_by(coder(how, &Options::default())?);
    let (id, unencoded) = instance(front, name, &weights, how)?;
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
    // With names for dims, of which numbers would tell nothing.
    let named = data::wanted(front.module.func(id));
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
    let parts: Vec<&Wanted> = wanted.iter().filter(|w| w.name.starts_with(&within)).collect();
    if !weights.touch(WEIGHTS, &parts, &dims) {
        // What is missing is said before anything is compiled.
        let needed = weights.needed(WEIGHTS, &parts);
        let named: Vec<&Wanted> = named.iter().filter(|w| w.name.starts_with(&within)).collect();
        let named = weights.needed(WEIGHTS, &named);
        if let Some((dim, count, tensor)) = weights.fewer(WEIGHTS, &named, &dims) {
            return Err(fewer(front, checkpoint, &dim, &values, (count, &tensor)));
        }
        weights.read(WEIGHTS, &needed, &dims)?;
    }
    let unread = weights.unread();
    let (how, converted) = (how.clone(), weights.those_converted());
    Ok(Bound { entry: id, wanted, given, config: values, dims, unread, unencoded, how, converted })
}

fn coder(how: &Binding, options: &Options) -> Result<Option<Coder>, Failure> {
    how.quant.as_deref().map(|to| Coder::new(to, options, how.threads)).transpose()
}

/// The instance of an entry for the element types that a checkpoint has, or that were asked for, and the matrices that
/// stay as they are.
fn instance(
    front: &mut Front,
    name: &str,
    weights: &Weights<'_>,
    how: &Binding,
) -> Result<(FuncId, Vec<String>), Failure> {
    let any = entry::find(front, Some(name))?;
    let wanted = data::wanted(front.module.func(any));
    let within = format!("{WEIGHTS}.");
    let parts: Vec<&Wanted> = wanted.iter().filter(|w| w.name.starts_with(&within)).collect();
    let at = front.module.func(any).span;
    let open = if how.quant.is_some() { open(front, at) } else { BTreeSet::new() };
    let storage = weights.storage(WEIGHTS, &parts, &open)?;
    let mut kinds = storage.kinds;
    let by_token = |w: &&Wanted| w.from.as_ref().is_some_and(|f| f.starts_with("by token"));
    kinds.extend(wanted.iter().filter(by_token).map(|w| (w.name.clone(), how.kept.clone())));
    let strange = strange(front, weights, &parts, &kinds);
    let args: BTreeMap<String, KnownArg> =
        kinds.into_iter().map(|(path, kind)| (path, (Some(Sym::new(&kind)), None))).collect();
    let request = Request { at, args, listed: Vec::<Choice>::new() };
    let (checked, entered) = check::check_entry(&Library::get().all, &front.files, &request);
    if !checked.ok() {
        return Err(strange.unwrap_or(Failure::Diagnostics(checked.diagnostics)));
    }
    let Some(entered) = entered else { return Ok((any, storage.stays)) };
    front.module = checked.module;
    let id = match entered.id {
        Instance::Func(id) => id,
        Instance::Prim(prim) => entry::wrap(&mut front.module, prim),
    };
    entry_choice::rename(front, id, name);
    Ok((id, storage.stays))
}

/// What is said where an entry is not defined for how a tensor is stored; none where there is a text of each way.
fn strange(
    front: &Front,
    weights: &Weights<'_>,
    parts: &[&Wanted],
    kinds: &BTreeMap<String, String>,
) -> Option<Failure> {
    let known = |kind: &str| {
        let float = kind.parse::<tensor::DType>().is_ok_and(|d| d.is_float());
        float || Library::get().has_encoding(kind, &front.files)
    };
    let found = parts.iter().filter(|w| kinds.contains_key(&w.name)).find_map(|w| {
        let stored = kinds.get(&w.name)?.split('|').map(|way| way.split('*').next().unwrap_or(way));
        let kind = stored.into_iter().find(|k| !known(k))?;
        Some((weights.stored_so(WEIGHTS, w, kind)?, kind.to_owned()))
    });
    let (tensor, kind) = found?;
    let path = weights.path().display();
    Some(Failure::data(format!("{path}: `{tensor}` has elements of type `{kind}`, which is not supported")))
}

/// The parameters of the entry defined there that may be stored in any way: those whose element type is a generic that
/// nobody else tells.
fn open(front: &Front, at: ir::source::Span) -> BTreeSet<String> {
    let request = Request { at, args: BTreeMap::new(), listed: Vec::new() };
    let (_, entered) = check::check_entry(&Library::get().all, &front.files, &request);
    let open = entered.map_or_else(Vec::new, |e| e.open);
    open.iter().filter_map(|(generic, _)| Some(generic.name().strip_suffix(".E")?.to_owned())).collect()
}

/// A count that the config says, and the files do not have.
fn fewer(
    front: &Front,
    checkpoint: &Checkpoint,
    dim: &str,
    values: &BTreeMap<String, Value>,
    (count, tensor): (i64, &str),
) -> Failure {
    let setting = front.module.settings.iter().find(|s| s.name.name() == dim);
    let key = setting.and_then(|s| settings::key(s, checkpoint.config()));
    let key = key.unwrap_or_else(|| dim.to_owned());
    let said = values.get(dim).and_then(Value::as_i64).map_or_else(String::new, |n| n.to_string());
    let path = checkpoint.path().display();
    Failure::data(format!("{path}: `{key}` is {said}, and the files have {count}: there is no `{tensor}`"))
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
