//! Weights by name: a `.safetensors` file, or a folder of them, bound to the parts of a record.
//!
//! A part says the tensor it is read from, or else is read by its path below the record. Where arrays put axes at its
//! front, the name has a `{..}` for each, and the tensors of all counts are stacked. Types of floats are converted
//! where nothing is lost. All that is missing or does not fit is said at once.

use std::collections::BTreeMap;
use std::path::Path;

use shape::Sym;
use tensor::safetensors::{self, Entry};
use tensor::{DType, Tensor};

use crate::Failure;
use crate::data::{self, Wanted};

/// The tensors of some files, by name.
pub(crate) struct Checkpoint {
    path: String,
    /// Each with the number of its file.
    entries: BTreeMap<String, (usize, Entry)>,
    files: Vec<Vec<u8>>,
}

impl Checkpoint {
    /// Reads a file, or every `.safetensors` file of a folder. The names in a folder's files are its index, so a
    /// written one is not needed; a name that two files have is refused.
    pub(crate) fn open(path: &str) -> Result<Checkpoint, Failure> {
        let wrong = |e: &dyn std::fmt::Display| Failure::data(format!("{path}: {e}"));
        let mut paths = vec![path.to_owned()];
        if Path::new(path).is_dir() {
            paths.clear();
            for entry in std::fs::read_dir(path).map_err(|e| wrong(&e))? {
                let at = entry.map_err(|e| wrong(&e))?.path();
                if at.extension().is_some_and(|e| e == "safetensors") {
                    paths.push(at.display().to_string());
                }
            }
            paths.sort();
            if paths.is_empty() {
                return Err(wrong(&"no .safetensors file is in the folder"));
            }
        } else if !path.ends_with(".safetensors") {
            let text = format!(
                "-i: `{path}` gives no record: say FILE.safetensors, a folder, random@SEED, zeros or ones"
            );
            return Err(Failure::Usage(text));
        }
        let mut files: Vec<Vec<u8>> = Vec::new();
        let mut entries: BTreeMap<String, (usize, Entry)> = BTreeMap::new();
        for at in &paths {
            let bytes = data::read(at)?;
            let file = safetensors::File::read(&bytes).map_err(|e| Failure::data(format!("{at}: {e}")))?;
            for e in file.entries() {
                if let Some((other, _)) = entries.insert(e.name.clone(), (files.len(), e.clone())) {
                    return Err(wrong(&format!("{} and {at} both hold `{}`", paths[other], e.name)));
                }
            }
            files.push(bytes);
        }
        Ok(Checkpoint { path: path.to_owned(), entries, files })
    }

    /// The tensors for the parts of the record `name`. `dims` are those known; others are counted.
    pub(crate) fn read(
        &self,
        name: &str,
        parts: &[&Wanted],
        dims: &BTreeMap<Sym, i64>,
    ) -> Result<Vec<Tensor>, Failure> {
        let mut faults = Vec::new();
        let mut out = Vec::new();
        for w in parts {
            match self.part(name, w, dims) {
                Ok(t) => out.push(t),
                Err(text) => faults.push(text),
            }
        }
        if faults.is_empty() {
            return Ok(out);
        }
        Err(Failure::data(format!("{} does not fit {name}:\n  {}", self.path, faults.join("\n  "))))
    }

    fn part(&self, record: &str, w: &Wanted, dims: &BTreeMap<Sym, i64>) -> Result<Tensor, String> {
        let path = w.name.strip_prefix(record).map_or(w.name.as_str(), |p| p.trim_start_matches('.'));
        let template = w.from.as_deref().unwrap_or(path);
        let holes = template.matches('{').count();
        let known = |d: &shape::Expr| d.eval(&|s| dims.get(&s).copied()).ok();
        // How many of each count: said by the shape, or else as many as the checkpoint has.
        let mut counts: Vec<i64> = Vec::new();
        for axis in 0..holes {
            let said = w.ty.shape.get(axis).and_then(known);
            let zeros = vec![0; holes - axis - 1];
            let has = |n: i64| {
                let at: Vec<i64> = counts.iter().map(|_| 0).chain([n]).chain(zeros.iter().copied()).collect();
                self.entries.contains_key(&filled_in(template, &at))
            };
            counts.push(said.unwrap_or_else(|| (0..).take_while(|n| has(*n)).count() as i64));
        }
        let inner = w.ty.shape.get(holes..).unwrap_or(&[]);
        let total = counts.iter().product::<i64>().max(0);
        let mut bytes = Vec::new();
        let mut shape: Option<Vec<i64>> = None;
        for k in 0..total {
            let mut rest = k;
            let mut at: Vec<i64> = counts
                .iter()
                .rev()
                .map(|c| {
                    let i = rest % c;
                    rest /= c;
                    i
                })
                .collect();
            at.reverse();
            let key = filled_in(template, &at);
            let Some((file, entry)) = self.entries.get(&key) else {
                let near = ir::diag::nearest(&key, self.entries.keys().map(String::as_str));
                let hint = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
                return Err(format!("{}: {} is not there: `{key}`{hint}", w.name, w.ty));
            };
            let fits = entry.shape.len() == inner.len()
                && entry.shape.iter().zip(inner).all(|(n, d)| known(d).is_none_or(|want| want == *n))
                && shape.as_ref().is_none_or(|s| *s == entry.shape);
            if !fits {
                return Err(format!(
                    "{}: {} is needed, and `{key}` is {}{:?}",
                    w.name, w.ty, entry.type_name, entry.shape
                ));
            }
            let file = safetensors::File::read(&self.files[*file]).map_err(|e| e.to_string())?;
            let t = file.tensor(&key).map_err(|e| format!("`{key}`: {e}"))?;
            let t = converted(t, w.ty.dtype).map_err(|d| {
                format!("{}: {} is needed, and `{key}` is {d}, which would lose digits", w.name, w.ty.dtype)
            })?;
            bytes.extend_from_slice(t.bytes());
            shape = Some(t.shape().to_vec());
        }
        let whole: Vec<i64> = match shape {
            Some(shape) => counts.into_iter().chain(shape).collect(),
            None => {
                let extents: Option<Vec<i64>> = inner.iter().map(known).collect();
                let Some(inner) = extents else {
                    return Err(format!("{}: {} is not there: `{template}`", w.name, w.ty));
                };
                counts.into_iter().chain(inner).collect()
            }
        };
        Tensor::from_bytes(w.ty.dtype, &whole, &bytes).map_err(|e| format!("{}: {e}", w.name))
    }
}

/// A template with its k-th `{..}` replaced by the k-th number.
fn filled_in(template: &str, at: &[i64]) -> String {
    let mut out = String::new();
    let mut rest = template;
    for n in at {
        let Some((before, after)) = rest.split_once('{') else { break };
        out.push_str(before);
        out.push_str(&n.to_string());
        rest = after.split_once('}').map_or("", |a| a.1);
    }
    out + rest
}

/// A tensor as another type of floats that holds every number of its own; the type itself where it does not.
fn converted(t: Tensor, to: DType) -> Result<Tensor, DType> {
    let from = t.dtype();
    if from == to {
        return Ok(t);
    }
    let lossless =
        matches!((from, to), (DType::Bf16 | DType::F16, DType::F32 | DType::F64) | (DType::F32, DType::F64));
    let mut out = Tensor::zeros(to, t.shape()).ok().filter(|_| lossless).ok_or(from)?;
    (0..t.len()).for_each(|i| out.set_f64(i, t.get_f64(i)));
    Ok(out)
}
