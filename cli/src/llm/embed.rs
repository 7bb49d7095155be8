//! `tenon embed` and `tenon rerank`: vectors of texts, scores of pairs of texts.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use tenon::llm::{Embedder, Embedding, Load, Reranker};
use tensor::{Tensor, npy};

use super::{attempt, compiled, fault, notes, watching};
use crate::args::llm::{CheckpointArgs, TextArgs};
use crate::commands::Done;
use crate::output;

/// `tenon embed`
pub(crate) fn embed(
    args: &CheckpointArgs,
    texts: &TextArgs,
    truncate: bool,
    to: Option<&Path>,
    json: bool,
) -> Done {
    let load = Load { texts: !texts.text.is_empty(), ..compiled(args)? };
    let embedder = attempt!(watching(&load, json, |load| Embedder::open_with(&args.checkpoint, load)));
    let embedder = embedder.truncate(truncate);
    notes(embedder.notes());
    let words: Vec<&str> = texts.text.iter().map(String::as_str).collect();
    let ids: Vec<&[u32]> = texts.ids.iter().map(|i| i.0.as_slice()).collect();
    let mut made = attempt!(embedder.embed(&words));
    made.extend(attempt!(embedder.embed_ids(&ids)));
    if let Some(path) = to {
        write(path, &made).map_err(|e| fault(format!("{}: {e}", path.display())))?;
    }
    if json {
        let vectors: Vec<&[f32]> = made.iter().map(|e| e.vector.as_slice()).collect();
        let tokens: Vec<usize> = made.iter().map(|e| e.tokens).collect();
        output::print_json(&json!({ "embeddings": vectors, "tokens": tokens }));
    } else if to.is_none() {
        for e in &made {
            let numbers: Vec<String> = e.vector.iter().map(ToString::to_string).collect();
            output::print(&format!("{}\n", numbers.join(" ")));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes vectors as `f32[texts, ..]`.
fn write(path: &Path, made: &[Embedding]) -> Result<(), String> {
    let all: Vec<f32> = made.iter().flat_map(|e| e.vector.iter().copied()).collect();
    let width = all.len() / made.len().max(1);
    let rows = Tensor::from_f32(&[made.len() as i64, width as i64], &all).map_err(|e| e.to_string())?;
    let bytes = npy::write(&rows).map_err(|e| e.to_string())?;
    std::fs::write(path, bytes).map_err(|e| e.to_string())
}

/// `tenon rerank`
pub(crate) fn rerank(
    args: &CheckpointArgs,
    query: &str,
    texts: &[String],
    truncate: bool,
    json: bool,
) -> Done {
    let load = Load { texts: true, ..compiled(args)? };
    let reranker = attempt!(watching(&load, json, |load| Reranker::open_with(&args.checkpoint, load)));
    let reranker = reranker.truncate(truncate);
    notes(reranker.notes());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let scores = attempt!(reranker.scores(query, &texts));
    if json {
        output::print_json(&json!({ "scores": scores }));
    } else {
        for score in scores {
            output::print(&format!("{score}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
