//! Arguments given from outside, `-i NAME=VALUE`, and results written to files.
//!
//! A value is a `.npy` file, `FILE.safetensors#NAME`, a number, a list, a generator (`randn[2,784]@7`), or
//! `random@SEED`, `zeros`, `ones`, which make any type once the dims are known: from the other arguments, or
//! given by name (`-i n=4`). A record takes one value for all its parts: one of those three, or a checkpoint
//! ([`weights`](crate::weights)). `config=FILE.json`, or a checkpoint, gives what the program's [`settings`] ask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ir::Setting;
use ir::graph::{Func, Op, Type};
use ir::origin::Value;
use shape::{Expr as Dim, Pred, Sym};
use tensor::{DType, Tensor, generate, npy, safetensors};

use crate::settings::Values;
use crate::weights::Weights;
use crate::{Failure, settings};

/// What an entry asks of one argument.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The parameter; of a part of a record its path, `w.layers.q`.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The tensor of a checkpoint that it is read from, with a `{..}` for each axis that arrays put at its front.
    pub from: Option<String>,
    /// Its extents as the program writes them: also over dims that are given as numbers.
    pub extents: Vec<Dim>,
}

/// What a function asks.
pub fn wanted(func: &Func) -> Vec<Wanted> {
    // An extent that only numbers tell has a name of its own, and is compared.
    let compared = |s: Sym| {
        func.body.nodes.iter().find_map(|n| {
            let Op::Check(Pred::Eq(own, e), _) = &n.op else { return None };
            (own.as_sym() == Some(s)).then(|| e.clone())
        })
    };
    let param = |(p, v): (&ir::graph::Param, &ir::graph::ValId)| {
        let ty = func.ty(*v).clone();
        let extents = ty.shape.iter().map(|d| d.subst(&compared)).collect();
        Wanted { name: p.name.name().to_owned(), ty, from: p.from.clone(), extents }
    };
    func.params.iter().zip(&func.body.params).map(param).collect()
}

/// What makes a value of any type, once its shape is known.
#[derive(Clone, Copy)]
enum Fill {
    Random(u64),
    Zeros,
    Ones,
}

impl Fill {
    fn parse(text: &str) -> Option<Fill> {
        match text {
            "zeros" => Some(Fill::Zeros),
            "ones" => Some(Fill::Ones),
            "random" => Some(Fill::Random(0)),
            _ => text.strip_prefix("random@").and_then(|s| s.parse().ok()).map(Fill::Random),
        }
    }
}

/// Makes the arguments of an entry from `NAME=VALUE` texts. `settings` are what the program's configs declare:
/// `config=FILE.json` gives those that are not given by name.
pub fn arguments(
    entry: &str,
    wanted: &[Wanted],
    settings: &[Setting],
    given: &[String],
) -> Result<Vec<Tensor>, Failure> {
    let has_config = wanted.iter().any(|w| w.name == "config");
    let values = named(given, if has_config { None } else { Some(settings) })?;
    let mut dims = given_dims(entry, wanted, settings, &values)?;
    let said = dims.clone();
    // First those that say their own shape, then those that take it from the dims.
    let mut made: Vec<Option<Tensor>> = Vec::new();
    for w in wanted {
        let tensor = match values.get(w.name.as_str()) {
            Some(v) if Fill::parse(v).is_some() => None,
            Some(v) => Some(value(&w.name, v, w.ty.dtype)?),
            None => None,
        };
        if let Some(t) = &tensor {
            learn(&mut dims, w, t);
        }
        made.push(tensor);
    }
    derive(&mut dims, settings, &values);
    // Records of weights: every part of `w` from the one value given for `w`.
    for (name, value) in &values {
        let within = format!("{name}.");
        let parts: Vec<usize> = (0..wanted.len()).filter(|&i| wanted[i].name.starts_with(&within)).collect();
        if parts.is_empty() || Fill::parse(value).is_some() {
            continue;
        }
        let checkpoint = crate::weights::open(value)?;
        let config = config_values(settings, &values);
        let open: Vec<usize> = parts.into_iter().filter(|&i| made[i].is_none()).collect();
        let asked: Vec<&Wanted> = open.iter().map(|&i| &wanted[i]).collect();
        let read = Weights::new(&checkpoint, &config).read(name, &asked, &dims)?;
        for (i, t) in open.into_iter().zip(read) {
            learn(&mut dims, &wanted[i], &t);
            made[i] = Some(t);
        }
    }
    derive(&mut dims, settings, &values);
    let number = |s: Sym| values.get(s.name()).and_then(|v| v.parse::<i64>().ok());
    let extent = |s: Sym| dims.get(&s).copied().or_else(|| number(s));
    let mut out = Vec::new();
    let mut lacking = Vec::new();
    for (k, (w, t)) in wanted.iter().zip(made).enumerate() {
        match (t, source(&w.name, &values).and_then(|v| Fill::parse(v))) {
            (Some(t), _) => out.push(t),
            // The parts of a record differ, though one seed made them.
            (None, Some(Fill::Random(seed))) if !values.contains_key(&w.name) => {
                out.push(filled(w, Fill::Random(seed.wrapping_add(k as u64)), &extent)?);
            }
            (None, Some(fill)) => out.push(filled(w, fill, &extent)?),
            (None, None) => lacking.push(format!("{}: {}", w.name, w.ty)),
        }
    }
    if !lacking.is_empty() {
        let text = format!("{entry} needs {}; give it with -i NAME=VALUE", lacking.join(", "));
        return Err(Failure::Message { code: "E0603", text });
    }
    agree(wanted, &out, &said)?;
    Ok(out)
}

/// Values of the config, as origins of weights speak of them.
fn config_values(settings: &[Setting], values: &BTreeMap<String, String>) -> Values {
    let known = settings.iter().filter_map(|s| {
        let term: ir::origin::Term = values.get(s.name.name())?.parse().ok()?;
        Some((s.name.name().to_owned(), term.eval(&crate::settings::Nothing).ok()??))
    });
    known.collect()
}

/// The texts by name; with what a config's file gives, where `config` is not the name of an argument.
fn named(given: &[String], settings: Option<&[Setting]>) -> Result<BTreeMap<String, String>, Failure> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for text in given {
        let Some((name, value)) = text.split_once('=').filter(|(n, _)| !n.is_empty()) else {
            return Err(Failure::Usage(format!("-i: `{text}` is not NAME=VALUE")));
        };
        if values.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::Usage(format!("-i: {name} is given twice")));
        }
    }
    if let Some(settings) = settings {
        // Without a file there are defaults.
        let read = match values.remove("config") {
            Some(path) => settings::read(&path, settings, &values)?,
            None => settings::defaults(settings, &values)?,
        };
        // What a config defines by others is asked of nobody.
        let own = |name: &str| {
            let setting = settings.iter().find(|s| s.name.name() == name);
            setting.is_some_and(|s| s.is.as_ref().is_none_or(|is| is.as_int().is_some()))
        };
        for (name, value) in read.into_iter().filter(|(name, _)| own(name)) {
            values.entry(name).or_insert(value.to_string());
        }
    }
    for s in settings.unwrap_or_default() {
        if let (Some(n), Some(value)) = (s.is.as_ref().and_then(Dim::as_int), values.get(s.name.name()))
            && value.parse() != Ok(n)
        {
            let text = format!("{} is given as {value}, and the program is for {n}", s.name);
            return Err(Failure::Message { code: "E0601", text });
        }
    }
    Ok(values)
}

/// The dims of a program's configs that are given before it is compiled, and those that the configs define by them.
pub(crate) fn settled(settings: &[Setting], given: &[String]) -> Result<BTreeMap<Sym, i64>, Failure> {
    let mut dims = BTreeMap::new();
    let values = named(given, Some(settings))?;
    for s in settings.iter().filter(|s| s.dtype.is_none() && s.is.is_none()) {
        if let Some(n) = values.get(s.name.name()).and_then(|v| v.parse().ok()).filter(|n| *n >= 0) {
            dims.insert(s.name, n);
        }
    }
    derive(&mut dims, settings, &values);
    Ok(dims)
}

/// The weights of the parts of the record `name` among those wanted, each with its place there, from a `.safetensors`
/// file or a folder of them. `known` are dims that other arguments tell.
pub fn weights(
    name: &str,
    wanted: &[&Wanted],
    known: &[(String, i64)],
    path: &str,
) -> Result<Vec<(usize, Tensor)>, Failure> {
    let within = format!("{name}.");
    let parts: Vec<usize> = (0..wanted.len()).filter(|&i| wanted[i].name.starts_with(&within)).collect();
    if parts.is_empty() {
        return Err(Failure::Message { code: "E0601", text: format!("no record `{name}` is asked for") });
    }
    let asked: Vec<&Wanted> = parts.iter().map(|&i| wanted[i]).collect();
    let dims = known.iter().map(|(n, v)| (Sym::new(n), *v)).collect();
    let checkpoint = crate::weights::open(path)?;
    let read = Weights::new(&checkpoint, &Values::new()).read(name, &asked, &dims)?;
    Ok(parts.into_iter().zip(read).collect())
}

/// The text given for a part of a record: its own, or that of the whole.
fn source<'v>(name: &str, values: &'v BTreeMap<String, String>) -> Option<&'v String> {
    let mut at = name;
    loop {
        if let Some(v) = values.get(at) {
            return Some(v);
        }
        at = at.rsplit_once('.')?.0;
    }
}

/// The dims given by name.
fn given_dims(
    entry: &str,
    wanted: &[Wanted],
    settings: &[Setting],
    values: &BTreeMap<String, String>,
) -> Result<BTreeMap<Sym, i64>, Failure> {
    let mut dims: BTreeMap<Sym, i64> = BTreeMap::new();
    let all: BTreeSet<Sym> = wanted.iter().flat_map(|w| &w.ty.shape).flat_map(|d| d.syms()).collect();
    for (name, value) in values {
        let within = format!("{name}.");
        if wanted.iter().any(|w| w.name == *name || w.name.starts_with(&within)) {
            continue;
        }
        match (all.iter().find(|s| s.name() == name), value.parse::<i64>()) {
            (Some(&s), Ok(n)) if n >= 0 => {
                dims.insert(s, n);
            }
            (Some(_), _) => return Err(Failure::data(format!("dim {name}: `{value}` is not a count"))),
            // A value of the config that this entry has no use for.
            (None, _) if settings.iter().any(|s| s.name.name() == name && s.is.is_none()) => {}
            (None, _)
                if let Some(is) =
                    settings.iter().find(|s| s.name.name() == name).and_then(|s| s.is.as_ref()) =>
            {
                // A number is one that was compared.
                if is.as_int().is_none() {
                    return Err(Failure::Usage(format!(
                        "-i: `{name}` is not asked for: the config says that it is {is}"
                    )));
                }
            }
            (None, _) => {
                let mut names: Vec<&str> = wanted.iter().map(|w| w.name.as_str()).collect();
                names.extend(all.iter().map(|s| s.name()));
                let near = ir::diag::nearest(name, names.iter().copied());
                let hint = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if names.is_empty() => "it takes none".to_owned(),
                    None => format!("it takes {}", names.join(", ")),
                };
                return Err(Failure::Usage(format!("-i: {entry} has no argument `{name}`; {hint}")));
            }
        }
    }
    Ok(dims)
}

/// The dims that a config defines by others.
fn derive(dims: &mut BTreeMap<Sym, i64>, settings: &[Setting], values: &BTreeMap<String, String>) {
    for s in settings {
        let Some(is) = &s.is else { continue };
        let known = |x: Sym| {
            dims.get(&x).copied().or_else(|| values.get(x.name()).and_then(|v| v.parse::<i64>().ok()))
        };
        if let Ok(n) = is.eval(&known) {
            dims.entry(s.name).or_insert(n);
        }
    }
}

/// The dims that a value tells.
fn learn(dims: &mut BTreeMap<Sym, i64>, w: &Wanted, t: &Tensor) {
    for (d, &n) in w.ty.shape.iter().zip(t.shape()) {
        if let Some(s) = d.as_sym() {
            dims.entry(s).or_insert(n);
        }
    }
}

/// A dim that was given, and that an argument tells too, is one number.
fn agree(wanted: &[Wanted], args: &[Tensor], said: &BTreeMap<Sym, i64>) -> Result<(), Failure> {
    for (w, t) in wanted.iter().zip(args) {
        for (axis, (d, &n)) in w.ty.shape.iter().zip(t.shape()).enumerate() {
            if let Some(&given) = d.as_sym().and_then(|s| said.get(&s))
                && given != n
            {
                let text = format!("{d} is given as {given}, and axis {axis} of {} is {n}", w.name);
                return Err(Failure::Message { code: "E0601", text });
            }
        }
    }
    Ok(())
}

/// The dims that arguments determine, by name.
pub fn dims(wanted: &[Wanted], args: &[Tensor]) -> Vec<(String, i64)> {
    let mut dims: BTreeMap<Sym, i64> = BTreeMap::new();
    for (w, t) in wanted.iter().zip(args) {
        for (d, &n) in w.ty.shape.iter().zip(t.shape()) {
            if let Some(s) = d.as_sym() {
                dims.entry(s).or_insert(n);
            }
        }
    }
    dims.into_iter().map(|(s, n)| (s.name().to_owned(), n)).collect()
}

/// `random@SEED`, `zeros`, `ones`: integers are small, and of a type without sign not negative.
fn filled(w: &Wanted, fill: Fill, value: &dyn Fn(Sym) -> Option<i64>) -> Result<Tensor, Failure> {
    let extent = |d: &Dim| {
        d.eval(&value).map_err(|e| {
            let hint =
                d.syms().into_iter().next().map_or(String::new(), |s| format!("; give it with -i {s}=.."));
            Failure::data(format!("argument {}: extent {d}: {e}{hint}", w.name))
        })
    };
    let shape = w.extents.iter().map(extent).collect::<Result<Vec<i64>, _>>()?;
    let made = match fill {
        Fill::Random(seed) => generate::random(w.ty.dtype, &shape, seed),
        Fill::Zeros => Tensor::zeros(w.ty.dtype, &shape),
        Fill::Ones => {
            let kind = generate::Kind::Ones;
            generate::Spec { kind, shape, seed: 0, dtype: None }.tensor(w.ty.dtype)
        }
    };
    made.map_err(|e| Failure::data(format!("argument {}: {e}", w.name)))
}

/// One value; `dtype` is the parameter's, which a number or generator takes.
fn value(name: &str, text: &str, dtype: DType) -> Result<Tensor, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::data(format!("argument {name}: {e}"));
    if text.ends_with(".npy") {
        return npy::read(&read(text)?).map_err(|e| wrong(&format!("{text}: {e}")));
    }
    if let Some((file, key)) = text.split_once('#') {
        let bytes = read(file)?;
        let found = safetensors::File::read(&bytes).and_then(|f| f.tensor(key));
        return found.map_err(|e| wrong(&format!("{file}: {e}")));
    }
    if dtype == DType::Bool && matches!(text, "true" | "false") {
        return Ok(Tensor::scalar_i(DType::Bool, i64::from(text == "true")));
    }
    if let Ok(i) = text.parse::<i64>() {
        if dtype.is_float() {
            return Ok(Tensor::scalar_f(dtype, i as f64));
        }
        if dtype.wrap(i) != i {
            return Err(wrong(&format!("{i} does not fit in {dtype}")));
        }
        return Ok(Tensor::scalar_i(dtype, i));
    }
    if let Ok(x) = text.parse::<f64>() {
        if !dtype.is_float() {
            return Err(wrong(&format!("`{text}` is not of type {dtype}")));
        }
        return Ok(Tensor::scalar_f(dtype, x));
    }
    if text.starts_with('[') {
        let term: ir::origin::Term = text.parse().map_err(|e: String| wrong(&e))?;
        let list = term.eval(&settings::Nothing).map_err(|e| wrong(&e))?;
        let list = list.ok_or_else(|| wrong(&"a list of numbers is needed"))?;
        return of_value(&list, dtype).map_err(|e| wrong(&e));
    }
    let spec: generate::Spec = text.parse().map_err(|e| wrong(&e))?;
    spec.tensor(dtype).map_err(|e| wrong(&e))
}

/// A number, or a list of them: `[1, 2.5]`, `[[true], [false]]`.
pub fn of_value(value: &Value, dtype: DType) -> Result<Tensor, String> {
    fn gather(v: &Value, depth: usize, shape: &mut Vec<i64>, out: &mut Vec<Value>) -> Result<(), String> {
        let Value::List(list) = v else {
            out.push(v.clone());
            return if depth == shape.len() {
                Ok(())
            } else {
                Err("a list is not as deep everywhere".to_owned())
            };
        };
        match shape.get(depth) {
            Some(n) if *n == list.len() as i64 => {}
            None if out.is_empty() => shape.push(list.len() as i64),
            _ => return Err("a list is not as long everywhere".to_owned()),
        }
        list.iter().try_for_each(|v| gather(v, depth + 1, shape, out))
    }
    let (mut shape, mut all) = (Vec::new(), Vec::new());
    gather(value, 0, &mut shape, &mut all)?;
    let mut t = Tensor::zeros(dtype, &shape).map_err(|e| e.to_string())?;
    for (i, v) in all.iter().enumerate() {
        match (v, dtype.is_float()) {
            (Value::Bool(b), false) if dtype == DType::Bool => t.set_i64(i, i64::from(*b)),
            (v, true) if v.as_f64().is_some() => t.set_f64(i, v.as_f64().unwrap_or_default()),
            (Value::Int(n), false) if dtype != DType::Bool && dtype.wrap(*n) == *n => t.set_i64(i, *n),
            _ => return Err(format!("{v} is not of type {dtype}")),
        }
    }
    Ok(t)
}

/// What the arguments given say of their element types and axes, by path; those that take both from the parameter say
/// nothing. `wanted` are the parameters of any instance: a checkpoint tells the types of the tensors that they are read
/// from.
pub(crate) fn shown(
    given: &[String],
    wanted: &[Wanted],
    settings: &[Setting],
) -> Result<BTreeMap<String, check::KnownArg>, Failure> {
    let mut out = BTreeMap::new();
    for (name, text) in given.iter().filter_map(|g| g.split_once('=')) {
        let within = format!("{name}.");
        let parts: Vec<&Wanted> = wanted.iter().filter(|w| w.name.starts_with(&within)).collect();
        if parts.is_empty() || Fill::parse(text).is_some() || text.ends_with(".npy") || text.contains('#') {
            continue;
        }
        let checkpoint = crate::weights::open(text)?;
        let values = named(given, Some(settings))?;
        let config = config_values(settings, &values);
        let kinds = Weights::new(&checkpoint, &config).kinds(name, &parts);
        out.extend(kinds.into_iter().map(|(path, kind)| (path, (Some(Sym::new(&kind)), None))));
    }
    for (name, text) in given.iter().filter_map(|g| g.split_once('=')) {
        let elem = |d: DType| Sym::new(d.name());
        let of = |t: &Tensor| (Some(elem(t.dtype())), Some(t.shape().len()));
        let seen = if text.ends_with(".npy") || text.contains('#') {
            value(name, text, DType::F32).ok().as_ref().map(of)
        } else if text.parse::<f64>().is_ok() {
            Some((None, Some(0)))
        } else if matches!(text, "true" | "false") {
            Some((Some(elem(DType::Bool)), Some(0)))
        } else {
            text.parse::<generate::Spec>().ok().map(|s| (s.dtype.map(elem), Some(s.shape.len())))
        };
        if let Some(seen) = seen {
            out.insert(name.to_owned(), seen);
        }
    }
    Ok(out)
}

/// A file's bytes.
pub fn read(path: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|e| Failure::data(format!("{path}: {e}")))
}

/// A file's text.
pub fn text(path: &str) -> Result<String, Failure> {
    crate::modules::text(read(path)?).map_err(|why| Failure::data(format!("{path}: {why}")))
}

/// Writes results as `DIR/NAME.npy`, or `.safetensors` for types that `.npy` lacks; gives the paths.
pub fn write(dir: &Path, results: &[(String, Tensor)]) -> Result<Vec<PathBuf>, Failure> {
    let fail = |path: &Path, e: &dyn std::fmt::Display| Failure::data(format!("{}: {e}", path.display()));
    std::fs::create_dir_all(dir).map_err(|e| fail(dir, &e))?;
    let mut paths = Vec::new();
    for (name, t) in results {
        let (ending, bytes) = if t.dtype().npy().is_some() {
            ("npy", npy::write(t))
        } else {
            ("safetensors", safetensors::write([(name.as_str(), t)]))
        };
        let path = dir.join(format!("{name}.{ending}"));
        let bytes = bytes.map_err(|e| fail(&path, &e))?;
        std::fs::write(&path, bytes).map_err(|e| fail(&path, &e))?;
        paths.push(path);
    }
    Ok(paths)
}
