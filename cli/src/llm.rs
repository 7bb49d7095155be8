//! The commands of language models.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use driver::Failure;
use ir::source::SourceMap;
use serde_json::json;
use tenon::Notes;
use tenon::llm::{Chat, Choice, Finish, Generated, Load, Model, Progress, Request, Sampling, Step};
use tensor::npy;

use crate::args::llm::{CheckpointArgs, ModelArgs, PromptArgs, SamplingArgs};
use crate::commands::Done;
use crate::output;
use crate::progress::{Bar, Unit};

mod bench;
mod embed;
mod estimate;
mod import;
mod perplexity;
mod pull;
mod serve;

pub(crate) use bench::{What, bench};
pub(crate) use embed::{embed, rerank};
pub(crate) use estimate::estimate;
pub(crate) use import::import;
pub(crate) use perplexity::perplexity;
pub(crate) use pull::pull;
pub(crate) use serve::serve;

/// What a command of this file ends with when it fails: a text that is rendered already.
pub(crate) fn failed(e: &tenon::Error) -> ExitCode {
    eprintln!("{e}");
    ExitCode::from(1)
}

/// Ends with what a part of the crate `tenon` says is wrong.
macro_rules! attempt {
    ($e:expr) => {
        match $e {
            Ok(v) => v,
            Err(e) => return Ok($crate::llm::failed(&e)),
        }
    };
}
pub(crate) use attempt;

fn fault(text: String) -> (SourceMap, Failure) {
    (SourceMap::default(), Failure::data(text))
}

/// How a model is loaded.
pub(crate) fn load(args: &ModelArgs, sequences: usize) -> Result<Load, (SourceMap, Failure)> {
    Ok(Load { kv: args.kv.clone(), sequences, ..compiled(&args.of)? })
}

/// The same, of one that keeps nothing.
pub(crate) fn compiled(args: &CheckpointArgs) -> Result<Load, (SourceMap, Failure)> {
    let mut load = Load { model: args.program.clone(), context: args.ctx, ..Load::default() };
    load.quant.clone_from(&args.quant);
    load.memory = args.memory_limit;
    load.options.threads = args.threads.map(usize::from);
    let compile = &mut load.options.compile;
    compile.plan.exact = args.exact;
    if let Some(cpu) = &args.target_cpu {
        let target = codegen::Target::named(cpu).map_err(|e| fault(e.to_string()))?;
        compile.target = target;
    }
    compile.plan.machine = driver::at_hand::machine(args.machine.as_deref(), &compile.target)
        .map_err(|f| (SourceMap::default(), f))?;
    Ok(load)
}

/// Opens a model, and notes what of its file its text does not read.
pub(crate) fn open(args: &ModelArgs, load: &Load, quiet: bool) -> Result<Model, tenon::Error> {
    let model = watching(load, quiet, |load| Model::open_with(&args.of.checkpoint, load))?;
    notes(model.notes());
    Ok(model)
}

/// Loads something, and shows how far that is.
pub(crate) fn watching<T>(
    load: &Load,
    quiet: bool,
    open: impl FnOnce(&Load) -> Result<T, tenon::Error>,
) -> Result<T, tenon::Error> {
    let bar = Arc::new(Mutex::new(Bar::new(quiet)));
    let shown = |bar: &Mutex<Bar>, p: Progress| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        match p.step {
            Step::Plan => bar.show("choosing the plan", p.done, p.total, Unit::Pieces),
            Step::Compile => bar.show("compiling kernels", p.done, p.total, Unit::Pieces),
            Step::Load => bar.show("loading weights", p.done, p.total, Unit::Bytes),
            Step::Write => bar.show("writing weights", p.done, p.total, Unit::Bytes),
        }
    };
    let theirs = Arc::clone(&bar);
    let made = open(&load.clone().watched(move |p| shown(&theirs, p)));
    bar.lock().unwrap_or_else(PoisonError::into_inner).clear();
    made
}

/// Says what is to be known of how a model was loaded.
pub(crate) fn notes(notes: &Notes) {
    note(&notes.unread);
    note_unencoded(&notes.unencoded);
    let unkept = notes.unkept.iter().map(|why| format!("the weights are not kept for the next time: {why}"));
    driver::cache::fault().into_iter().chain(unkept).take(1).for_each(|why| eprintln!("note: {why}"));
}

/// Notes which tensors the text of a model does not read: a bias that it does not know, say.
pub(crate) fn note(unread: &[String]) {
    match unread {
        [] => {}
        [one] => eprintln!("note: the model's text does not read `{one}`"),
        [first, rest @ ..] => {
            eprintln!("note: the model's text does not read `{first}` and {} tensors more", rest.len());
        }
    }
}

/// Notes which matrices are not stored as `--quant` says.
pub(crate) fn note_unencoded(paths: &[String]) {
    let more = match paths {
        [] => return,
        [one] => format!("`{one}` stays as it is"),
        [first, rest @ ..] => format!("`{first}` and {} matrices more stay as they are", rest.len()),
    };
    eprintln!("note: {more}: rows are no whole blocks of what --quant says");
}

fn request(args: &SamplingArgs) -> Request {
    Request {
        sampling: Sampling {
            temperature: args.temperature,
            top_k: args.top_k,
            top_p: args.top_p,
            min_p: args.min_p,
            typical: args.typical_p,
            repeat: args.repeat_penalty,
            presence: args.presence_penalty,
            frequency: args.frequency_penalty,
            seed: args.seed,
            ..Sampling::default()
        },
        max_tokens: args.max_tokens,
        stop: args.stop.clone(),
        ignore_end: args.ignore_eos,
        cancel: None,
        logprobs: None,
    }
}

fn rate(tokens: usize, time: std::time::Duration) -> f64 {
    if tokens == 0 { 0.0 } else { tokens as f64 / time.as_secs_f64().max(1e-9) }
}

/// `tenon generate`
pub(crate) fn generate(
    args: &ModelArgs,
    prompt: &PromptArgs,
    sampling: &SamplingArgs,
    logits: Option<&Path>,
    logprobs: Option<usize>,
    json: bool,
) -> Done {
    let load = Load { texts: prompt.ids.is_none(), ..load(args, 1)? };
    let model = attempt!(open(args, &load, json));
    let ids = match (&prompt.prompt, &prompt.chat, &prompt.ids) {
        (Some(text), ..) => attempt!(model.tokens(text)),
        (_, Some(text), _) => attempt!(model.conversation(&[("user", text)])),
        (.., Some(ids)) => ids.0.clone(),
        _ => Vec::new(),
    };
    if let Some(path) = logits {
        let rows = attempt!(model.logits(&ids));
        let bytes = npy::write(&rows).map_err(|e| fault(format!("{}: {e}", path.display())))?;
        std::fs::write(path, bytes).map_err(|e| fault(format!("{}: {e}", path.display())))?;
    }
    let mut request = request(sampling);
    request.max_tokens = request.max_tokens.or(Some(256));
    request.logprobs = logprobs;
    let mut said = |piece: &str| {
        if !json {
            output::print(piece);
        }
    };
    let made = attempt!(model.generate(&ids, &request, &mut said));
    if json {
        output::print_json(&summary(&made, model.tokenizer().is_ok()));
    } else {
        let end = if made.text.is_empty() { format!("{:?}\n", made.ids) } else { "\n".to_owned() };
        output::print(&end);
        if std::io::stderr().is_terminal() {
            eprintln!("{}", rates(&made));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `text` is null where no vocabulary makes one of the tokens.
fn summary(made: &Generated, text: bool) -> serde_json::Value {
    let finish = match made.finish {
        Finish::End | Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Cancelled => "cancelled",
    };
    let mut out = json!({
        "text": text.then_some(&made.text),
        "ids": made.ids,
        "prompt_tokens": made.prompt_tokens,
        "tokens": made.ids.len(),
        "finish": finish,
        "prefill_tps": rate(made.prompt_tokens, made.prefill),
        "decode_tps": rate(made.ids.len().saturating_sub(1), made.decode),
    });
    if !made.logprobs.is_empty() {
        let of = |(id, logprob): (u32, f32)| json!({ "id": id, "logprob": logprob });
        let one = |(id, choice): (&u32, &Choice)| {
            let mut own = of((*id, choice.logprob));
            own["top"] = choice.top.iter().copied().map(of).collect();
            own
        };
        out["logprobs"] = made.ids.iter().zip(&made.logprobs).map(one).collect();
    }
    out
}

fn rates(made: &Generated) -> String {
    let prefill = rate(made.prompt_tokens, made.prefill);
    let decode = rate(made.ids.len().saturating_sub(1), made.decode);
    format!(
        "{} tokens of the prompt at {prefill:.0} a second, {} new ones at {decode:.1}",
        made.prompt_tokens,
        made.ids.len()
    )
}

/// `tenon tokenize`
pub(crate) fn tokenize(checkpoint: &Path, text: Option<&str>, file: Option<&Path>, json: bool) -> Done {
    let text = match (text, file) {
        (Some(text), _) => text.to_owned(),
        (None, Some(path)) => {
            std::fs::read_to_string(path).map_err(|e| fault(format!("{}: {e}", path.display())))?
        }
        (None, None) => std::io::read_to_string(std::io::stdin()).map_err(|e| fault(e.to_string()))?,
    };
    let ids = attempt!(tenon::llm::tokenize(checkpoint, &text));
    if json {
        output::print_json(&json!({ "ids": ids }));
    } else {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        output::print(&format!("{}\n", ids.join(" ")));
    }
    Ok(ExitCode::SUCCESS)
}

/// `tenon chat`
pub(crate) fn chat(args: &ModelArgs, system: Option<&str>, sampling: &SamplingArgs) -> Done {
    let load = Load { texts: true, ..load(args, 1)? };
    let model = attempt!(open(args, &load, false));
    let mut chat = Chat::new(&model);
    if let Some(text) = system {
        chat.set_system(text);
    }
    let mut request = request(sampling);
    if std::io::stdin().is_terminal() {
        let cancel = Arc::new(AtomicBool::new(false));
        request.cancel = Some(Arc::clone(&cancel));
        conversation(&mut chat, &request, &cancel)
    } else {
        piped(&mut chat, &request)
    }
}

/// From a pipe: one turn a line.
fn piped(chat: &mut Chat<'_>, request: &Request) -> Done {
    for (k, line) in std::io::stdin().lock().split(b'\n').enumerate() {
        let line = line.map_err(|e| fault(format!("stdin: {e}")))?;
        let mut line =
            String::from_utf8(line).map_err(|_| fault(format!("stdin: line {} is no UTF-8", k + 1)))?;
        if line.ends_with('\r') {
            line.pop();
        }
        if line.trim().is_empty() {
            continue;
        }
        if let Some(command) = line.strip_prefix('/') {
            if obey(chat, command) {
                break;
            }
            continue;
        }
        attempt!(chat.say(&line, request, &mut output::print));
        output::print("\n");
    }
    Ok(ExitCode::SUCCESS)
}

/// At a terminal: Ctrl-C ends an answer, and not the program.
fn conversation(chat: &mut Chat<'_>, request: &Request, cancel: &Arc<AtomicBool>) -> Done {
    let terminal = |e: rustyline::error::ReadlineError| fault(format!("the terminal: {e}"));
    let mut editor = rustyline::DefaultEditor::new().map_err(terminal)?;
    let flag = Arc::clone(cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).map_err(|e| fault(e.to_string()))?;
    output::print("/help lists the commands; Ctrl-C ends an answer, Ctrl-D the conversation\n");
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(rustyline::error::ReadlineError::Interrupted) => continue,
            Err(rustyline::error::ReadlineError::Eof) => return Ok(ExitCode::SUCCESS),
            Err(e) => return Err(terminal(e)),
        };
        if line.trim().is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(line.as_str());
        if let Some(command) = line.strip_prefix('/') {
            if obey(chat, command) {
                return Ok(ExitCode::SUCCESS);
            }
            continue;
        }
        cancel.store(false, Ordering::Relaxed);
        match chat.say(&line, request, &mut output::print) {
            Ok(made) => {
                output::print("\n");
                eprintln!("\x1b[2m{}\x1b[0m", rates(&made));
            }
            // The conversation goes on.
            Err(e) => eprintln!("{e}"),
        }
    }
}

/// A command within a conversation; true if it ends it.
fn obey(chat: &mut Chat<'_>, command: &str) -> bool {
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    match word {
        "system" => chat.set_system(rest),
        "clear" => chat.clear(),
        "save" => match save(chat, rest) {
            Ok(()) => output::print(&format!("saved as {rest}\n")),
            Err(e) => eprintln!("error: {rest}: {e}"),
        },
        "quit" | "exit" => return true,
        _ => output::print(
            "/system TEXT  what the model is to be\n/clear        forget what was said\n\
             /save FILE    write the conversation as JSON\n/quit         end\n",
        ),
    }
    false
}

fn save(chat: &Chat<'_>, path: &str) -> std::io::Result<()> {
    let turn = |(role, content): &(String, String)| json!({ "role": role, "content": content });
    let all: Vec<_> = chat.turns().iter().map(turn).collect();
    let mut file = std::fs::File::create(path)?;
    writeln!(file, "{}", serde_json::to_string_pretty(&all).unwrap_or_default())
}
