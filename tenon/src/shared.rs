//! Weights that stand in memory once, whatever functions read them: what has the same type, shape and contents is one
//! tensor, as long as somebody has it.
//!
//! So two functions of a model share its weights, and two models that were opened from the same files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use driver::Failure;
use sha2::{Digest, Sha256};
use tensor::{DType, Tensor};

/// What tells a tensor from others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hash {
    /// The element type, by its name.
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<i64>,
    /// The SHA-256 of its bytes, as digits.
    pub(crate) digits: String,
}

impl Hash {
    /// That of a tensor.
    pub(crate) fn of(t: &Tensor) -> Hash {
        let digits = Sha256::digest(t.bytes()).iter().map(|b| format!("{b:02x}")).collect();
        Hash { dtype: t.dtype().name(), shape: t.shape().to_vec(), digits }
    }

    /// That of a tensor whose contents are known.
    pub(crate) fn known(dtype: DType, shape: &[i64], digits: &str) -> Hash {
        Hash { dtype: dtype.name(), shape: shape.to_vec(), digits: digits.to_owned() }
    }
}

static ALL: Mutex<BTreeMap<Hash, Weak<Tensor>>> = Mutex::new(BTreeMap::new());

/// The tensor of a hash: the one that somebody has, or else a new one.
pub(crate) fn shared(
    hash: &Hash,
    make: impl FnOnce() -> Result<Tensor, Failure>,
) -> Result<Arc<Tensor>, Failure> {
    let all = || ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(t) = all().get(hash).and_then(Weak::upgrade) {
        return Ok(t);
    }
    let made = Arc::new(make()?);
    let mut all = all();
    // Another thread may have been earlier.
    if let Some(t) = all.get(hash).and_then(Weak::upgrade) {
        return Ok(t);
    }
    all.retain(|_, t| t.strong_count() > 0);
    all.insert(hash.clone(), Arc::downgrade(&made));
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_same_contents_is_one_tensor_while_somebody_has_it() {
        let make = |x: f32| Tensor::from_f32(&[2], &[x, 7.0]).expect("two numbers");
        let get = |x: f32| shared(&Hash::of(&make(x)), || Ok(make(x))).expect("it is made");
        let (a, b, c) = (get(1.5), get(1.5), get(2.5));
        assert!(Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &c));
        let hash = Hash::of(&a);
        assert!(hash == Hash::known(DType::F32, &[2], &hash.digits));
        let t = Tensor::from_f32(&[1, 2], &[1.5, 7.0]).expect("two numbers");
        assert!(!Arc::ptr_eq(&a, &shared(&Hash::of(&t), || Ok(t)).expect("it is made")), "of another shape");
        drop((a, b));
        let left = ALL.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).and_then(Weak::upgrade);
        assert!(left.is_none());
    }
}
