//! A program and a checkpoint, bound: the config's values and the record of weights.
//!
//! What the checkpoint says decides which instance of the entry it is: its dims are known when the program is compiled,
//! and each tensor that may be stored in any way is taken as it is stored.

use std::borrow::Cow;
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
pub use crate::weights::Kept;
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
    /// The parts of the record before it was known how they are stored.
    parts: Vec<Wanted>,
    /// The tensors that parts of the record, or values of the config, are read from.
    read: BTreeSet<String>,
}

impl Bound {
    /// True for a parameter that weights give.
    pub fn is_weight(&self, at: usize) -> bool {
        is_weight(&self.wanted[at].name)
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

    /// What becomes of the tensors of the checkpoint that this was bound to, where it is written anew: all that are
    /// read, in the order of the checkpoint. Behind them those that stay as they are, although a part of the record is
    /// stored in another way.
    pub fn kept(
        &self,
        checkpoint: &Checkpoint,
        options: &Options,
    ) -> Result<(Vec<Kept>, Vec<String>), Failure> {
        let reader = self.reader(checkpoint, options)?;
        Ok(reader.weights.kept(WEIGHTS, &self.parts, &self.read))
    }

    /// The bytes of all weights.
    pub fn weights(&self) -> u64 {
        let all = (0..self.wanted.len()).filter(|i| self.is_weight(*i));
        estimate::sum(all.filter_map(|i| estimate::bytes(&self.wanted[i].ty, &self.dims)))
    }
}

/// True for the name of a parameter that weights give.
pub fn is_weight(name: &str) -> bool {
    name.strip_prefix(WEIGHTS).is_some_and(|rest| rest.starts_with('.'))
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

    /// The bytes of a tensor as it is to be written.
    pub fn bytes(&self, kept: &Kept) -> Result<Cow<'_, [u8]>, String> {
        self.weights.bytes(kept)
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
    /// The element type of what is kept by token, where the program leaves that open: a float type, an encoding, or
    /// `int8`, which is the encoding of 8 bits that fits ([`kept_as`]).
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
    let (id, unencoded, any) = instance(front, name, (&weights, &values), how)?;
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
    let mut read = weights.those_read();
    read.extend(front.module.settings.iter().flat_map(settings::tensors));
    Ok(Bound {
        entry: id,
        wanted,
        given,
        config: values,
        dims,
        unread,
        unencoded,
        how,
        converted,
        parts: any,
        read,
    })
}

fn coder(how: &Binding, options: &Options) -> Result<Option<Coder>, Failure> {
    how.quant.as_deref().map(|to| Coder::new(to, options, how.threads)).transpose()
}

/// The instance of an entry for the element types that a checkpoint has, or that were asked for, the matrices that stay
/// as they are, and the parts of the record before that was known.
fn instance(
    front: &mut Front,
    name: &str,
    (weights, values): (&Weights<'_>, &BTreeMap<String, Value>),
    how: &Binding,
) -> Result<(FuncId, Vec<String>, Vec<Wanted>), Failure> {
    let any = entry::find(front, Some(name))?;
    let wanted = data::wanted(front.module.func(any));
    let within = format!("{WEIGHTS}.");
    let parts: Vec<&Wanted> = wanted.iter().filter(|w| w.name.starts_with(&within)).collect();
    let at = front.module.func(any).span;
    let open = if how.quant.is_some() { open(front, at) } else { BTreeSet::new() };
    let storage = weights.storage(WEIGHTS, &parts, &open)?;
    let parts: Vec<Wanted> = parts.into_iter().cloned().collect();
    let mut kinds = storage.kinds;
    let by_token = |w: &&Wanted| w.from.as_ref().is_some_and(|f| f.starts_with("by token"));
    let kept: Vec<&Wanted> = wanted.iter().filter(by_token).collect();
    let kind = kept_as(&how.kept, &kept, values);
    kinds.extend(kept.iter().map(|w| (w.name.clone(), kind.to_owned())));
    let strange = strange(front, weights, &parts, &kinds);
    let args: BTreeMap<String, KnownArg> =
        kinds.into_iter().map(|(path, kind)| (path, (Some(Sym::new(&kind)), None))).collect();
    let request = Request { at, args, listed: Vec::<Choice>::new() };
    let (checked, entered) = check::check_entry(&Library::get().all, &front.files, &request);
    if !checked.ok() {
        return Err(strange.unwrap_or(Failure::Diagnostics(checked.diagnostics)));
    }
    let Some(entered) = entered else { return Ok((any, storage.stays, parts)) };
    front.module = checked.module;
    let id = match entered.id {
        Instance::Func(id) => id,
        Instance::Prim(prim) => entry::wrap(&mut front.module, prim),
    };
    entry_choice::rename(front, id, name);
    Ok((id, storage.stays, parts))
}

/// The element type that leaves of a state are kept in. As `int8` they are in blocks with a scale each where all rows
/// are whole blocks, as those of most heads are, and else have a scale for each row.
fn kept_as<'k>(asked: &'k str, leaves: &[&Wanted], values: &BTreeMap<String, Value>) -> &'k str {
    const BLOCKS: &str = "q8_0";
    if asked != "int8" {
        return asked;
    }
    let block = import::layout(BLOCKS).map_or(1, |l| l.elements as i64);
    let known = |s: Sym| values.get(s.name()).and_then(Value::as_i64);
    // Numbers of pages are no rows.
    let rows = leaves.iter().filter(|w| w.ty.dtype.is_float()).filter_map(|w| w.ty.shape.last());
    let whole = rows.map(|d| d.eval(&known)).all(|n| n.is_ok_and(|n| n % block == 0));
    if whole { BLOCKS } else { "q8_row" }
}

/// What is said where an entry is not defined for how a tensor is stored; none where there is a text of each way.
fn strange(
    front: &Front,
    weights: &Weights<'_>,
    parts: &[Wanted],
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
