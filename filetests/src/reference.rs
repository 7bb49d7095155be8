//! Reference data: what other libraries compute, against every engine.
//!
//! `filetests/data/F.safetensors` holds cases for entries of `filetests/suite/reference/F.tn`: tensors
//! `ENTRY.CASE.in.I` and `ENTRY.CASE.out.I`, and for each entry `ENTRY.bound`, two numbers: rtol and
//! atol. `scripts/refdata` writes them from a list in Python; no test runs Python.

use std::collections::BTreeMap;
use std::path::Path;

use tensor::Tensor;
use tensor::safetensors::File;

/// How far a float may be from what is expected: `atol + rtol * |want|`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) rtol: f64,
    pub(crate) atol: f64,
}

/// One run of an entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) args: Vec<Tensor>,
    pub(crate) expected: Vec<Tensor>,
}

/// The runs of one entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) bound: Bound,
    pub(crate) runs: Vec<Run>,
}

/// The entries of a file of cases, by name.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, Entry>, String> {
    let shown = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = std::fs::read(path).map_err(|e| format!("{shown}: {e}; scripts/refdata makes it"))?;
    let file = File::read(&bytes).map_err(|e| format!("{shown}: {e}"))?;
    let wrong =
        |name: &str| format!("{shown}: `{name}` is not ENTRY.CASE.in.I, ENTRY.CASE.out.I or ENTRY.bound");
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    // By number, so that what comes in any order is put in place.
    let mut parts: BTreeMap<(String, usize, bool, usize), Tensor> = BTreeMap::new();
    for name in file.names() {
        let tensor = file.tensor(name).map_err(|e| format!("{shown}: {e}"))?;
        match name.split('.').collect::<Vec<_>>().as_slice() {
            [entry, "bound"] if tensor.len() == 2 => {
                let bound = Bound { rtol: tensor.get_f64(0), atol: tensor.get_f64(1) };
                entries.insert((*entry).to_owned(), Entry { bound, runs: vec![] });
            }
            [entry, case, way @ ("in" | "out"), index] => {
                let number = |t: &str| t.parse::<usize>().map_err(|_| wrong(name));
                parts.insert(((*entry).to_owned(), number(case)?, *way == "out", number(index)?), tensor);
            }
            _ => return Err(wrong(name)),
        }
    }
    for ((name, case, out, index), tensor) in parts {
        let entry = entries.get_mut(&name).ok_or_else(|| format!("{shown}: `{name}` has no bound"))?;
        if case >= entry.runs.len() {
            entry.runs.push(Run::default());
        }
        let count = entry.runs.len();
        let missing = || format!("{shown}: {name}: a case or tensor before {case}.{index} is missing");
        let run = entry.runs.get_mut(case).filter(|_| case + 1 == count).ok_or_else(missing)?;
        let list = if out { &mut run.expected } else { &mut run.args };
        if index != list.len() {
            return Err(missing());
        }
        list.push(tensor);
    }
    Ok(entries)
}

/// Says how a result differs from what is expected, if it does: the type, the shape, or an element.
pub(crate) fn differ(want: &Tensor, got: &Tensor, bound: Bound) -> Option<String> {
    if want.dtype() != got.dtype() || want.shape() != got.shape() {
        let (w, g) = ((want.dtype(), want.shape()), (got.dtype(), got.shape()));
        return Some(format!("{}{:?} is expected, got {}{:?}", w.0, w.1, g.0, g.1));
    }
    for i in 0..want.len() {
        if want.dtype().is_float() {
            let (w, g) = (want.get_f64(i), got.get_f64(i));
            // An infinity less itself is NaN, so equality is asked first.
            if w == g || (w.is_nan() && g.is_nan()) {
                continue;
            }
            let far = (g - w).abs();
            if w.is_infinite() || far.is_nan() || far > bound.atol + bound.rtol * w.abs() {
                return Some(format!("element {i}: {w} is expected, got {g}, off by {far:e}"));
            }
        } else if want.get_i64(i) != got.get_i64(i) {
            return Some(format!("element {i}: {} is expected, got {}", want.get_i64(i), got.get_i64(i)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use tensor::{DType, Tensor};

    use super::{Bound, differ};

    const BOUND: Bound = Bound { rtol: 1e-2, atol: 1e-3 };

    fn off(want: f64, got: f64) -> bool {
        differ(&Tensor::scalar_f(DType::F64, want), &Tensor::scalar_f(DType::F64, got), BOUND).is_some()
    }

    #[test]
    fn floats_differ_beyond_their_bound() {
        assert!(!off(1.0, 1.01) && off(1.0, 1.02));
        assert!(!off(0.0, 0.001) && off(0.0, 0.0011));
    }

    #[test]
    fn nan_and_infinity_are_only_themselves() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert!(!off(nan, nan) && off(nan, 0.0) && off(0.0, nan));
        assert!(!off(inf, inf) && off(inf, -inf) && off(inf, 1e300) && off(1e300, inf) && off(inf, nan));
    }

    #[test]
    fn integers_and_types_differ_exactly() {
        let int = |d, i| Tensor::scalar_i(d, i);
        assert!(differ(&int(DType::I64, 3), &int(DType::I64, 3), BOUND).is_none());
        assert!(differ(&int(DType::I64, 1000), &int(DType::I64, 1001), BOUND).is_some());
        assert!(differ(&int(DType::I64, 3), &int(DType::I32, 3), BOUND).is_some());
    }
}
