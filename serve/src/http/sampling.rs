//! What the APIs that make text have in common: how tokens are chosen, and when an answer ends.

#![expect(clippy::disallowed_methods, reason = "a deadline is a time")]

use std::time::{Duration, Instant};

use serde_json::Value;
use tenon::llm::{Model, Request, Sampling};

use super::error::Error;
use super::fields::Fields;
use crate::batch::Job;

/// The most answers to one request.
const ANSWERS: i64 = 128;
/// The most texts that end an answer.
const STOPS: usize = 16;
/// The seconds that a request may wait at most.
const LONGEST: f64 = 86_400.0;
/// Tokens that an answer has at most where nobody says.
const TOKENS: usize = 4096;

/// How a request wants its answers.
pub(super) struct Wish {
    /// One answer's, but for its prompt.
    pub(super) job: Job,
    /// The most tokens of an answer, where the request says it.
    most: Option<usize>,
    /// How many answers.
    pub(super) answers: usize,
    pub(super) stream: bool,
    /// Whether the stream ends with what was used.
    pub(super) usage: bool,
}

/// Takes the fields that say it. `limits` are the names of the one that bounds an answer's tokens.
pub(super) fn wish(fields: &mut Fields, limits: &[&str]) -> Result<Wish, Error> {
    let f = |x: Option<f64>, or: f32| x.map_or(or, |x| x as f32);
    let sampling = Sampling {
        temperature: f(fields.number("temperature", 0.0..=2.0)?, 1.0),
        top_p: f(fields.number("top_p", 0.0..=1.0)?, 1.0),
        top_k: fields.integer("top_k", -1..=1 << 31)?.map_or(0, |k| k.max(0) as usize),
        min_p: f(fields.number("min_p", 0.0..=1.0)?, 0.0),
        typical: f(fields.number("typical_p", 0.0..=1.0)?, 1.0),
        repeat: f(fields.number("repetition_penalty", 1e-3..=10.0)?, 1.0),
        presence: f(fields.number("presence_penalty", -2.0..=2.0)?, 0.0),
        frequency: f(fields.number("frequency_penalty", -2.0..=2.0)?, 0.0),
        bias: bias(fields)?,
        // Penalties are for what the model has said, however long ago.
        last: usize::MAX,
        from: 0,
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map_or_else(super::answer::random, |s| s as u64),
    };
    let mut most = None;
    for name in limits {
        most = most.or(fields.integer(name, 1..=i64::from(u32::MAX))?);
    }
    let stop = stops(fields)?;
    let options = fields.object("stream_options")?;
    let usage =
        options.as_ref().and_then(|o| o.get("include_usage")).and_then(Value::as_bool).unwrap_or(false);
    let ignore_end = fields.flag("ignore_eos")?;
    let deadline = fields.number("timeout", 0.0..=LONGEST)?.map(Duration::from_secs_f64);
    let job = Job {
        prompt: Vec::new(),
        request: Request { sampling, stop, ignore_end, ..Request::default() },
        most: TOKENS,
        priority: fields.integer("priority", -1000..=1000)?.map_or(0, |p| p as i32),
        deadline: deadline.map(|d| Instant::now() + d),
    };
    let answers = fields.integer("n", 1..=ANSWERS)?.unwrap_or(1) as usize;
    let most = most.map(|n| n as usize);
    Ok(Wish { job, most, answers, stream: fields.flag("stream")?, usage })
}

fn bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, Error> {
    let map = fields.object("logit_bias")?.unwrap_or_default();
    let one = |(id, value): (String, Value)| {
        let bias = value.as_f64().filter(|b| (-100.0..=100.0).contains(b));
        let wrong =
            || Error::field("logit_bias", "`logit_bias` is to be tokens with numbers from -100 to 100");
        id.parse().ok().zip(bias).map(|(id, b)| (id, b as f32)).ok_or_else(wrong)
    };
    map.into_iter().map(one).collect()
}

fn stops(fields: &mut Fields) -> Result<Vec<String>, Error> {
    let wrong =
        || Error::field("stop", format!("`stop` is to be a text, or up to {STOPS} of them, none empty"));
    let all = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(s)) => vec![s],
        Some(Value::Array(all)) => {
            all.iter().map(|v| v.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>().ok_or_else(wrong)?
        }
        Some(_) => return Err(wrong()),
    };
    if all.len() > STOPS || all.iter().any(String::is_empty) { Err(wrong()) } else { Ok(all) }
}

impl Wish {
    /// The jobs for a prompt: one for each answer, with seeds of their own.
    pub(super) fn jobs(&self, prompt: &[u32], model: &Model) -> Result<Vec<Job>, Error> {
        let (has, context) = (prompt.len(), model.context());
        if prompt.is_empty() {
            return Err(Error::request("the prompt has no tokens"));
        }
        if has >= context {
            let text = format!("the prompt has {has} tokens, and the context of the model is {context}");
            return Err(Error::request(text));
        }
        if let Some(most) = self.most.filter(|most| *most > context - has) {
            let text = format!(
                "the prompt has {has} tokens and {most} more are asked for; the context of the model is {context}"
            );
            return Err(Error::request(text));
        }
        if let Some(id) = prompt
            .iter()
            .chain(self.job.request.sampling.bias.iter().map(|b| &b.0))
            .find(|t| **t as usize >= model.vocab())
        {
            return Err(Error::request(format!("token {id} is not in the vocabulary of {}", model.vocab())));
        }
        let most = self.most.unwrap_or(TOKENS).min(context - has);
        let one = |k: usize| {
            let mut job = Job { prompt: prompt.to_vec(), most, ..self.job.clone() };
            job.request.sampling.from = has;
            job.request.sampling.seed = job.request.sampling.seed.wrapping_add(k as u64);
            job
        };
        Ok((0..self.answers).map(one).collect())
    }
}
