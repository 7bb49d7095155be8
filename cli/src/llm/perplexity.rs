//! `tenon perplexity`: how surprised a model is by a text.
//!
//! As llama.cpp counts it: the text is cut into chunks of the context, each begins with the token that begins a text
//! where the vocabulary has one, and the second half of each chunk is scored.

use std::path::Path;
use std::process::ExitCode;

use driver::Failure;
use ir::source::SourceMap;
use serde_json::json;
use tenon::llm::{Rows, log_probabilities};
use vm::Limits;

use super::{attempt, fault, load, open};
use crate::args::llm::ModelArgs;
use crate::commands::Done;
use crate::output;

/// The chunks' length, unless `--ctx` says another.
const CHUNK: usize = 512;

pub(crate) fn perplexity(args: &ModelArgs, file: &Path, json: bool) -> Done {
    let chunk = args.of.ctx.unwrap_or(CHUNK);
    if chunk < 3 {
        let text = format!("--ctx {chunk}: nothing of such chunks is scored; the least is 3");
        return Err((SourceMap::default(), Failure::Usage(text)));
    }
    let mut load = load(args, 1)?;
    (load.context, load.texts) = (Some(chunk), true);
    let text = std::fs::read_to_string(file).map_err(|e| fault(format!("{}: {e}", file.display())))?;
    let model = attempt!(open(args, &load, json));
    let ids = attempt!(model.tokens(&text));
    if ids.len() < 2 * chunk {
        let (path, len) = (file.display(), ids.len());
        let smaller = if len < 6 { "" } else { "; --ctx N makes chunks smaller" };
        return Err(fault(format!("{path}: {len} tokens, and two chunks of {chunk} are needed{smaller}")));
    }
    // What begins a text, where the vocabulary has it.
    let begin = attempt!(model.tokens("")).first().copied();
    let first = chunk / 2;
    let (mut sum, mut count) = (0f64, 0usize);
    let chunks = ids.chunks_exact(chunk);
    let all = chunks.len();
    for (k, tokens) in chunks.enumerate() {
        let mut tokens = tokens.to_vec();
        if let Some(bos) = begin {
            tokens[0] = bos;
        }
        let mut engine = model.engine();
        let id = engine.begin();
        let wanted = chunk - first;
        let logits = engine.step(&[Rows { sequence: id, tokens: &tokens, wanted }], &Limits::default());
        engine.end(id);
        let logits = attempt!(logits);
        let vocab = engine.vocab();
        let rows = logits.as_f32().unwrap_or(&[]);
        for (row, next) in rows.chunks_exact(vocab).zip(&tokens[first + 1..]) {
            sum -= f64::from(log_probabilities(row).get(*next as usize).copied().unwrap_or(f32::NAN));
            count += 1;
        }
        if !json {
            let so_far = (sum / count as f64).exp();
            eprintln!("{} of {all}: {so_far:.4}", k + 1);
        }
    }
    let nll = sum / count as f64;
    if json {
        output::print_json(&json!({ "tokens": count, "nll": nll, "perplexity": nll.exp() }));
    } else {
        output::print(&format!("perplexity {:.4} over {count} tokens\n", nll.exp()));
    }
    Ok(ExitCode::SUCCESS)
}
