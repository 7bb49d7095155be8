//! The commands of language models, as clap sees them.

use std::path::PathBuf;

use clap::Args;

/// A model, and how it is compiled.
#[derive(Args)]
pub(crate) struct CheckpointArgs {
    /// A folder of Hugging Face, a .gguf file, or the .tn file of a model beside either
    pub(crate) checkpoint: PathBuf,
    /// A text of your own for it, in the place of the library's
    #[arg(long = "model", value_name = "FILE.tn")]
    pub(crate) program: Option<PathBuf>,
    /// Products as exact as the text says: without it, what is multiplied by quantized weights is rounded to 8 bits
    #[arg(long)]
    pub(crate) exact: bool,
    /// How matrices are stored in memory, where the checkpoint has them as floats; f32 and bf16 decode others too
    #[arg(long, value_name = "TYPE", value_parser = ["bf16", "f32", "q8_0", "q4_0", "q4_k"])]
    pub(crate) quant: Option<String>,
    /// The most tokens of a sequence; without it, what the model was made for
    #[arg(long, value_name = "N", value_parser = super::positive)]
    pub(crate) ctx: Option<usize>,
    /// The most bytes of weights, of what sequences keep, and of a step: a model that needs more is not loaded
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_limit: Option<u64>,
    /// The CPU to make code for
    #[arg(long, value_name = "NAME")]
    pub(crate) target_cpu: Option<String>,
    /// A machine model to choose the plan for: a file, or `reference`; without it, the machine at hand
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(vm::threads::Pool::MOST)))]
    pub(crate) threads: Option<u16>,
}

/// A model that keeps what its sequences had.
#[derive(Args)]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    pub(crate) of: CheckpointArgs,
    /// How keys and values are kept
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = ["f32", "bf16", "f16", "int8"])]
    pub(crate) kv: String,
}

/// How a server runs.
#[derive(Args)]
pub(crate) struct ServerArgs {
    /// Where it listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port; 0 takes one that is free
    #[arg(long, value_name = "N", default_value_t = 8080)]
    pub(crate) port: u16,
    /// The name of the model in requests; without it that of its file or folder
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A key that requests must have; several times: any of them
    #[arg(long = "api-key", value_name = "KEY", env = "TENON_API_KEY", hide_env_values = true)]
    pub(crate) keys: Vec<String>,
    /// The most requests that run at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = super::positive)]
    pub(crate) max_batch: usize,
    /// The most requests that wait
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) queue: usize,
    /// About how long a step may take while somebody waits for a token, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub(crate) step_ms: u64,
    /// How long requests are answered after the server was told to end, in seconds
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub(crate) drain_s: u64,
}

/// What is imported, and where to.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// A folder of Hugging Face, a .gguf file, or the .tn file of a model beside either
    pub(crate) checkpoint: PathBuf,
    /// The folder; it is made where there is none
    #[arg(short, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// A text of your own for it, in the place of the library's
    #[arg(long = "model", value_name = "FILE.tn")]
    pub(crate) program: Option<PathBuf>,
    /// How matrices are stored, where the checkpoint has them as floats; f32 and bf16 decode others too
    #[arg(long, value_name = "TYPE", value_parser = ["bf16", "f32", "q8_0", "q4_0", "q4_k"])]
    pub(crate) quant: Option<String>,
    /// Write into a folder that is not empty: files of the same names are replaced
    #[arg(long)]
    pub(crate) force: bool,
    /// Threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(vm::threads::Pool::MOST)))]
    pub(crate) threads: Option<u16>,
    /// One JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// The texts of `embed`.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub(crate) struct TextArgs {
    /// A text
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// The tokens of a text, with those that begin and end it; they come behind the texts
    #[arg(long, value_name = "1,2,3", value_parser = ids)]
    pub(crate) ids: Vec<Ids>,
}

/// Tokens of a text.
#[derive(Clone)]
pub(crate) struct Ids(pub(crate) Vec<u32>);

fn ids(text: &str) -> Result<Ids, String> {
    if text.trim().is_empty() {
        return Err("at least one token is needed".to_owned());
    }
    let all = text.split(',').map(|id| id.trim().parse().map_err(|_| format!("`{id}` is no token")));
    all.collect::<Result<_, _>>().map(Ids)
}

/// What is downloaded, and where to.
#[derive(Args)]
pub(crate) struct PullArgs {
    /// The repository
    #[arg(value_name = "ORG/NAME", value_parser = repository)]
    pub(crate) repository: String,
    /// The folder; without it, NAME in this one. Files that are there and up to date are kept
    #[arg(short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// A branch, a tag or a commit; without it, main
    #[arg(long, value_name = "REVISION")]
    pub(crate) revision: Option<String>,
    /// Which weights, where there are several: `*Q4_K_M*`, by their paths in the repository
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,
}

/// How tokens are chosen, and when an answer ends.
#[derive(Args)]
pub(crate) struct SamplingArgs {
    /// The most tokens to make
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub(crate) max_tokens: Option<usize>,
    /// 0: the likeliest token; the greater, the wilder
    #[arg(long, allow_negative_numbers = true, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    pub(crate) temperature: f32,
    /// What random numbers are made of
    #[arg(long, allow_negative_numbers = true, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Of so many likeliest tokens; 0: of all
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 0)]
    pub(crate) top_k: usize,
    /// Of the likeliest that together have this probability
    #[arg(long, allow_negative_numbers = true, value_name = "P", default_value_t = 1.0, value_parser = part)]
    pub(crate) top_p: f32,
    /// Of those with at least this part of the likeliest one's probability
    #[arg(long, allow_negative_numbers = true, value_name = "P", default_value_t = 0.0, value_parser = part)]
    pub(crate) min_p: f32,
    /// Of those whose surprise is nearest to the expected one, that together have this probability
    #[arg(long, allow_negative_numbers = true, value_name = "P", default_value_t = 1.0, value_parser = part)]
    pub(crate) typical_p: f32,
    /// What logits of tokens that stood before are divided by
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 1.0, value_parser = factor)]
    pub(crate) repeat_penalty: f32,
    /// What is taken from logits of tokens that stood before
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 0.0)]
    pub(crate) presence_penalty: f32,
    /// The same for each time they stood there
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 0.0)]
    pub(crate) frequency_penalty: f32,
    /// A text that ends the answer
    #[arg(long, value_name = "TEXT", value_parser = stop)]
    pub(crate) stop: Vec<String>,
    /// Go on behind what usually ends an answer
    #[arg(long)]
    pub(crate) ignore_eos: bool,
}

/// What a model goes on behind.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PromptArgs {
    /// A text
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// What a user says, written as the model's conversations are
    #[arg(long, value_name = "TEXT")]
    pub(crate) chat: Option<String>,
    /// Tokens
    #[arg(long, value_name = "1,2,3", value_parser = ids)]
    pub(crate) ids: Option<Ids>,
}

fn repository(text: &str) -> Result<String, String> {
    if hub::is_repository(text) { Ok(text.to_owned()) } else { Err(hub::NO_REPOSITORY.to_owned()) }
}

fn temperature(text: &str) -> Result<f32, String> {
    let t = text.parse().ok().filter(|t: &f32| t.is_finite() && *t >= 0.0);
    t.ok_or_else(|| "not a number from 0 on".to_owned())
}

fn factor(text: &str) -> Result<f32, String> {
    let x = text.parse().ok().filter(|x: &f32| x.is_finite() && *x > 0.0);
    x.ok_or_else(|| "not a number above 0".to_owned())
}

fn stop(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("an empty text stands everywhere".to_owned()) } else { Ok(text.to_owned()) }
}

fn part(text: &str) -> Result<f32, String> {
    let p = text.parse().ok().filter(|p: &f32| (0.0..=1.0).contains(p));
    p.ok_or_else(|| "not a number of 0 to 1".to_owned())
}
