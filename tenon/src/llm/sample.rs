//! Which token follows: logits to a token.
//!
//! The order of what narrows the choice is that of llama.cpp: penalties, top-k, typical, top-p, min-p, temperature. A
//! random number is made of the seed and the position, so a token does not depend on what else is sampled.

/// How tokens are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0: the likeliest. Otherwise logits are divided by it.
    pub temperature: f32,
    /// Of so many likeliest; 0: of all.
    pub top_k: usize,
    /// Of the likeliest that together have this probability; 1: of all.
    pub top_p: f32,
    /// Of those with at least this part of the likeliest one's probability; 0: of all.
    pub min_p: f32,
    /// Of those whose surprise is nearest to the expected one, that together have this probability; 1: of all.
    pub typical: f32,
    /// What is added to logits of tokens, by token.
    pub bias: Vec<(u32, f32)>,
    /// What logits of tokens that stood before are divided by (multiplied, where they are negative); 1: nothing.
    pub repeat: f32,
    /// What is taken from logits of tokens that stood before.
    pub presence: f32,
    /// The same for each time they stood there.
    pub frequency: f32,
    /// How many tokens back the three above look.
    pub last: usize,
    /// The first token that presence and frequency look at: they may be for an answer alone.
    pub from: usize,
    /// What random numbers are made of.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical: 1.0,
            bias: Vec::new(),
            repeat: 1.0,
            presence: 0.0,
            frequency: 0.0,
            last: 64,
            from: 0,
            seed: 0,
        }
    }
}

/// A token with its logit.
type Candidate = (u32, f32);

impl Sampling {
    /// Whether the choice is the likeliest token, whatever the random number.
    fn is_greedy(&self) -> bool {
        self.temperature <= 0.0
    }

    /// The token that follows `before`. None if no logit is a number.
    pub fn choose(&self, logits: &[f32], before: &[u32]) -> Option<u32> {
        let penalized =
            (self.repeat != 1.0 || self.presence != 0.0 || self.frequency != 0.0) && self.last > 0;
        if self.is_greedy() && !penalized && self.bias.is_empty() {
            return likeliest(logits.iter().copied().enumerate().map(|(i, l)| (i as u32, l)));
        }
        let mut all: Vec<Candidate> =
            logits.iter().enumerate().filter(|l| !l.1.is_nan()).map(|(i, l)| (i as u32, *l)).collect();
        for (id, bias) in &self.bias {
            if let Ok(at) = all.binary_search_by_key(id, |c| c.0) {
                all[at].1 += bias;
            }
        }
        if penalized {
            self.penalize(&mut all, before);
        }
        if self.is_greedy() {
            return likeliest(all.into_iter());
        }
        self.narrow(&mut all);
        self.draw(&all, before.len() as u64)
    }

    fn penalize(&self, all: &mut [Candidate], before: &[u32]) {
        // How often each stood where presence and frequency look; 0 where only repetition looks.
        let mut counts: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
        for (at, id) in before.iter().enumerate().skip(before.len().saturating_sub(self.last)) {
            *counts.entry(*id).or_default() += u32::from(at >= self.from);
        }
        for (id, l) in all.iter_mut() {
            let Some(&n) = counts.get(id) else { continue };
            *l = if *l > 0.0 { *l / self.repeat } else { *l * self.repeat };
            if n > 0 {
                *l -= self.presence + self.frequency * n as f32;
            }
        }
    }

    /// Leaves those among which is chosen.
    fn narrow(&self, all: &mut Vec<Candidate>) {
        if self.top_k > 0 && self.top_k < all.len() {
            all.select_nth_unstable_by(self.top_k - 1, down);
            all.truncate(self.top_k);
        }
        if self.typical < 1.0 {
            all.sort_unstable_by(down);
            let p = probabilities(all, 1.0);
            let entropy: f32 = p.iter().map(|p| if *p > 0.0 { -p * p.ln() } else { 0.0 }).sum();
            let mut order: Vec<usize> = (0..all.len()).collect();
            let far = |i: usize| (-p[i].ln() - entropy).abs();
            order.sort_by(|a, b| far(*a).total_cmp(&far(*b)));
            let mut sum = 0.0;
            let mut kept: Vec<usize> = Vec::new();
            for i in order {
                kept.push(i);
                sum += p[i];
                if sum >= self.typical {
                    break;
                }
            }
            *all = kept.into_iter().map(|i| all[i]).collect();
        }
        if self.top_p < 1.0 {
            let count = nucleus(all, self.top_p);
            all.truncate(count);
        }
        if self.min_p > 0.0 {
            let least = greatest(all) + self.min_p.ln();
            all.retain(|c| c.1 >= least);
        }
    }

    fn draw(&self, all: &[Candidate], position: u64) -> Option<u32> {
        let p = probabilities(all, self.temperature);
        let at = uniform(self.seed, position);
        let mut sum = 0.0;
        for (c, p) in all.iter().zip(&p) {
            sum += p;
            if at < sum {
                return Some(c.0);
            }
        }
        // Rounding may leave the sum a little below 1.
        all.iter().zip(&p).rfind(|(_, p)| **p > 0.0).map(|(c, _)| c.0)
    }
}

/// The token of the greatest logit, the first of equals.
fn likeliest(all: impl Iterator<Item = Candidate>) -> Option<u32> {
    let mut best: Option<Candidate> = None;
    for (i, l) in all {
        if !l.is_nan() && best.is_none_or(|b| l > b.1) {
            best = Some((i, l));
        }
    }
    best.map(|b| b.0)
}

/// The likelier one first, of equals the first of the vocabulary.
fn down(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// The greatest logit, if one is a number.
fn greatest(all: &[Candidate]) -> f32 {
    all.iter().map(|c| c.1).fold(f32::NEG_INFINITY, f32::max)
}

/// Puts the likeliest tokens that together have a probability in front, and counts them.
fn nucleus(all: &mut [Candidate], probability: f32) -> usize {
    let top = greatest(all);
    let weight = |c: &Candidate| (c.1 - top).exp();
    let enough = probability * all.iter().map(weight).sum::<f32>();
    // Of a whole vocabulary few tokens are likely: it is not sorted where these are enough.
    let mut head = 256;
    loop {
        let head_now = head.min(all.len());
        if head_now < all.len() {
            all.select_nth_unstable_by(head_now - 1, down);
        }
        all[..head_now].sort_unstable_by(down);
        let mut sum = 0.0;
        let end = all[..head_now].iter().position(|c| {
            sum += weight(c);
            sum >= enough
        });
        match end {
            Some(last) => return last + 1,
            None if head_now == all.len() => return all.len(),
            None => head *= 8,
        }
    }
}

fn probabilities(all: &[Candidate], temperature: f32) -> Vec<f32> {
    let top = greatest(all);
    let top = if top.is_finite() { top } else { 0.0 };
    let e: Vec<f32> = all.iter().map(|c| ((c.1 - top) / temperature).exp()).collect();
    let sum: f32 = e.iter().sum();
    e.into_iter().map(|x| x / sum).collect()
}

/// A number of [0, 1) that a seed has at a position.
fn uniform(seed: u64, position: u64) -> f32 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(position).wrapping_add(1);
    // The finalizer of splitmix64, twice: neighbours have nothing in common.
    for _ in 0..2 {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
    }
    (x >> 40) as f32 / (1u64 << 24) as f32
}

/// The logarithms of the probabilities of a row of logits.
pub fn log_probabilities(logits: &[f32]) -> Vec<f32> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|l| f64::from(l - top).exp()).sum();
    let least = f64::from(top) + sum.ln();
    logits.iter().map(|l| (f64::from(*l) - least) as f32).collect()
}
