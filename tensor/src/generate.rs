//! Tensors from a short text: `zeros[2,784]`, `randn[2,784]@7:f16`.
//!
//! The random ones come from a generator of this crate's own (xoshiro256++, seeded by splitmix64), so
//! that a seed means the same numbers in every version and on every machine, as far as `ln` and `cos`
//! of the normal distribution agree there.

use std::str::FromStr;

use crate::{DType, Error, Tensor};

/// The most bytes a text may ask for.
const MAX_BYTES: u64 = 1 << 35;

/// Small integers are drawn from minus this to this: sums of many stay exact in every float type.
const SMALL: i64 = 4;

/// What the elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// 0
    Zeros,
    /// 1
    Ones,
    /// 0, 1, 2, .., row-major
    Arange,
    /// Normal, mean 0, deviation 1
    Randn,
    /// Uniform from 0 up to 1
    Rand,
    /// Integers from -4 to 4 (u8: 0 to 4; bool: either)
    Randint,
}

/// One row a kind: its name, whether it takes a seed.
const KINDS: [(Kind, &str, bool); 6] = [
    (Kind::Zeros, "zeros", false),
    (Kind::Ones, "ones", false),
    (Kind::Arange, "arange", false),
    (Kind::Randn, "randn", true),
    (Kind::Rand, "rand", true),
    (Kind::Randint, "randint", true),
];

/// A text, understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// What the elements are.
    pub kind: Kind,
    /// The extents.
    pub shape: Vec<i64>,
    /// `@7`; 0 if none was given.
    pub seed: u64,
    /// `:f16`, if it was given.
    pub dtype: Option<DType>,
}

fn wrong<T>(what: String) -> Result<T, Error> {
    Err(Error::Format(what))
}

impl FromStr for Spec {
    type Err = Error;

    /// Reads `KIND[N, ..]`, then `@SEED` and `:DTYPE` in either order.
    fn from_str(text: &str) -> Result<Spec, Error> {
        let Some((name, rest)) = text.split_once('[') else {
            return wrong(format!(
                "{text:?} is no generator: a shape in brackets is missing, as in randn[2,784]@7"
            ));
        };
        let Some(&(kind, name, seeded)) = KINDS.iter().find(|k| k.1 == name.trim()) else {
            let known: Vec<&str> = KINDS.iter().map(|k| k.1).collect();
            return wrong(format!("there is no generator {:?}; there are {}", name.trim(), known.join(", ")));
        };
        let Some((dims, mut suffix)) = rest.split_once(']') else {
            return wrong(format!("{text:?}: the bracket is not closed"));
        };
        let mut shape = Vec::new();
        for d in dims.split(',').map(str::trim).filter(|_| !dims.trim().is_empty()) {
            match d.parse::<i64>() {
                Ok(d) if d >= 0 => shape.push(d),
                _ => return wrong(format!("{text:?}: the extent {d:?} is not a number from 0 on")),
            }
        }
        let (mut seed, mut dtype) = (None, None);
        while let Some(mark @ ('@' | ':')) = suffix.chars().next() {
            let after = &suffix[1..];
            let (word, rest) = after.split_at(after.find(['@', ':']).unwrap_or(after.len()));
            match mark {
                '@' if !seeded => return wrong(format!("{text:?}: {name} is not random and takes no seed")),
                '@' if seed.is_none() => match word.trim().parse::<u64>() {
                    Ok(s) => seed = Some(s),
                    Err(_) => return wrong(format!("{text:?}: the seed {word:?} is not a number from 0 on")),
                },
                ':' if dtype.is_none() => match word.trim().parse::<DType>() {
                    Ok(d) => dtype = Some(d),
                    Err(()) => return wrong(format!("{text:?}: there is no element type {word:?}")),
                },
                _ => break,
            }
            suffix = rest;
        }
        if !suffix.is_empty() {
            return wrong(format!("{text:?}: after the shape come @SEED and :DTYPE, not {suffix:?}"));
        }
        Ok(Spec { kind, shape, seed: seed.unwrap_or(0), dtype })
    }
}

impl Spec {
    /// The tensor; `default` is the element type where the text gives none.
    pub fn tensor(&self, default: DType) -> Result<Tensor, Error> {
        let dtype = self.dtype.unwrap_or(default);
        let bytes = self.shape.iter().try_fold(dtype.size() as u64, |n, &d| n.checked_mul(d.max(0) as u64));
        if !self.shape.contains(&0) && bytes.is_none_or(|b| b > MAX_BYTES) {
            return Err(Error::TooLarge(self.shape.clone()));
        }
        let mut t = Tensor::zeros(dtype, &self.shape)?;
        let mut rng = Rng::new(self.seed);
        for i in 0..t.len() {
            match self.kind {
                Kind::Zeros => break,
                Kind::Ones => t.set_i64(i, 1),
                Kind::Arange => t.set_i64(i, i as i64),
                Kind::Randn => t.set_f64(i, rng.normal()),
                Kind::Rand => t.set_f64(i, rng.uniform()),
                Kind::Randint => t.set_i64(i, small(&mut rng, dtype)),
            }
        }
        Ok(t)
    }
}

fn small(rng: &mut Rng, dtype: DType) -> i64 {
    let (least, most) = match dtype.is_int() || dtype.is_float() {
        true if dtype == DType::U8 => (0, SMALL),
        true => (-SMALL, SMALL),
        false => (0, 1),
    };
    rng.below((most - least + 1) as u64) as i64 + least
}

/// A random tensor of any type: floats are normal, integers small, `bool` either.
pub fn random(dtype: DType, shape: &[i64], seed: u64) -> Result<Tensor, Error> {
    let kind = if dtype.is_float() { Kind::Randn } else { Kind::Randint };
    Spec { kind, shape: shape.to_vec(), seed, dtype: Some(dtype) }.tensor(dtype)
}

/// A random tensor of small integers in any type, on which every order of summation gives the same bits.
pub fn random_exact(dtype: DType, shape: &[i64], seed: u64) -> Result<Tensor, Error> {
    Spec { kind: Kind::Randint, shape: shape.to_vec(), seed, dtype: Some(dtype) }.tensor(dtype)
}

/// A source of random numbers: xoshiro256++.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
    /// The second number of a pair of normal ones.
    spare: Option<f64>,
}

impl Rng {
    /// The source of a seed.
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            // splitmix64
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Rng { state, spare: None }
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let out = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        out
    }

    /// Uniform in `0..n`; `n` is not 0. The bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform from 0 up to, but not including, 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (-53f64).exp2()
    }

    /// Normal with mean 0 and deviation 1, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        if let Some(x) = self.spare.take() {
            return x;
        }
        // 1 - uniform is never 0, whose logarithm is infinite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}
