//! Arguments given from outside, `-i NAME=VALUE`, and results written to files.
//!
//! A value is a `.npy` file, `FILE.safetensors#NAME`, a number, a generator (`randn[2,784]@7`), or
//! `random@SEED`, which makes any type once the dims are known: from the other arguments, or given by
//! name (`-i n=4`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ir::graph::{Func, Type};
use shape::{Expr as Dim, Sym};
use tensor::{DType, Tensor, generate, npy, safetensors};

use crate::Failure;

/// What an entry asks of one argument.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The parameter.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// What a function asks.
pub fn wanted(func: &Func) -> Vec<Wanted> {
    let param = |(p, v): (&ir::graph::Param, &ir::graph::ValId)| Wanted {
        name: p.name.name().to_owned(),
        ty: func.ty(*v).clone(),
    };
    func.params.iter().zip(&func.body.params).map(param).collect()
}

/// Makes the arguments of an entry from `NAME=VALUE` texts.
pub fn arguments(entry: &str, wanted: &[Wanted], given: &[String]) -> Result<Vec<Tensor>, Failure> {
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    for text in given {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Failure::data(format!("`{text}` is not NAME=VALUE")));
        };
        if values.insert(name, value).is_some() {
            return Err(Failure::data(format!("argument {name} is given twice")));
        }
    }
    let mut dims: BTreeMap<Sym, i64> = BTreeMap::new();
    let is_param = |name: &str| wanted.iter().any(|w| w.name == name);
    let all_dims: Vec<Sym> = wanted.iter().flat_map(|w| &w.ty.shape).flat_map(|d| d.syms()).collect();
    for (&name, value) in values.iter().filter(|(n, _)| !is_param(n)) {
        let dim = all_dims.iter().find(|s| s.name() == name);
        match (dim, value.parse::<i64>()) {
            (Some(&s), Ok(n)) if n >= 0 => {
                dims.insert(s, n);
            }
            (Some(_), _) => return Err(Failure::data(format!("dim {name}: `{value}` is not a count"))),
            (None, _) => {
                let names: Vec<&str> = wanted.iter().map(|w| w.name.as_str()).collect();
                let near = ir::diag::nearest(name, names.iter().copied());
                let hint =
                    near.map_or(format!("it takes {}", names.join(", ")), |n| format!("did you mean `{n}`?"));
                return Err(Failure::data(format!("{entry} has no argument `{name}`; {hint}")));
            }
        }
    }
    // First those that say their own shape, then those that take it from the dims.
    let mut made: Vec<Option<Tensor>> = Vec::new();
    for w in wanted {
        let tensor = match values.get(w.name.as_str()) {
            Some(v) if v.starts_with("random") => None,
            Some(v) => Some(value(&w.name, v, w.ty.dtype)?),
            None => return Err(missing(entry, wanted, &values)),
        };
        if let Some(t) = &tensor {
            for (d, &n) in w.ty.shape.iter().zip(t.shape()) {
                if let Some(s) = d.as_sym() {
                    dims.entry(s).or_insert(n);
                }
            }
        }
        made.push(tensor);
    }
    let mut out = Vec::new();
    for (w, t) in wanted.iter().zip(made) {
        out.push(match t {
            Some(t) => t,
            None => random(w, values[w.name.as_str()], &dims)?,
        });
    }
    Ok(out)
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

fn missing(entry: &str, wanted: &[Wanted], values: &BTreeMap<&str, &str>) -> Failure {
    let names: Vec<String> = wanted
        .iter()
        .filter(|w| !values.contains_key(w.name.as_str()))
        .map(|w| format!("{}: {}", w.name, w.ty))
        .collect();
    Failure::Message {
        code: "E0603",
        text: format!("{entry} needs {}; give it with -i NAME=VALUE", names.join(", ")),
    }
}

/// `random@SEED`
fn random(w: &Wanted, text: &str, dims: &BTreeMap<Sym, i64>) -> Result<Tensor, Failure> {
    let seed = match text.strip_prefix("random") {
        Some("") => 0,
        Some(rest) => match rest.strip_prefix('@').and_then(|s| s.parse().ok()) {
            Some(seed) => seed,
            None => return Err(Failure::data(format!("argument {}: `{text}` is not random@SEED", w.name))),
        },
        None => 0,
    };
    let extent = |d: &Dim| {
        d.eval(&|s| dims.get(&s).copied()).map_err(|e| {
            let hint =
                d.syms().into_iter().next().map_or(String::new(), |s| format!("; give it with -i {s}=.."));
            Failure::data(format!("argument {}: the extent {d} is not known: {e}{hint}", w.name))
        })
    };
    let shape = w.ty.shape.iter().map(extent).collect::<Result<Vec<i64>, _>>()?;
    generate::random(w.ty.dtype, &shape, seed).map_err(|e| Failure::data(format!("argument {}: {e}", w.name)))
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
    let spec: generate::Spec = text.parse().map_err(|e| wrong(&e))?;
    spec.tensor(dtype).map_err(|e| wrong(&e))
}

/// A file's bytes.
pub fn read(path: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|e| Failure::data(format!("{path}: {e}")))
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
