//! The command line, as clap sees it.

use std::path::PathBuf;

use llm::{CheckpointArgs, ImportArgs, ModelArgs, PromptArgs, PullArgs, SamplingArgs, ServerArgs, TextArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use driver::Failure;

pub(crate) mod llm;

/// A compiler and runtime for machine-learning programs.
#[derive(Parser)]
#[command(name = "tenon", version, about, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is asked of a plan, instead of all of it.
#[derive(Args)]
pub(crate) struct Question {
    /// Say only why a value's step, or a kernel, was chosen
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    pub(crate) why: Option<String>,
    /// Say only what became of a rule
    #[arg(long, value_name = "RULE", conflicts_with_all = ["output", "why"])]
    pub(crate) why_not: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Parse, infer shapes, verify; print every diagnostic
    #[command(after_help = "Example: tenon check examples/01_mlp.tn")]
    Check {
        /// Program files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
        /// List when each dim is known, and what will be checked when running because it could not be proved
        #[arg(short, long)]
        verbose: bool,
    },
    /// Format in place
    #[command(after_help = "Example: tenon fmt --check examples/*.tn")]
    Fmt {
        /// Program files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Change nothing; exit 1 if a file is not formatted
        #[arg(long)]
        check: bool,
    },
    /// Run the test blocks of files
    #[command(after_help = "Example: tenon test examples/01_mlp.tn")]
    Test {
        /// Program files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// What runs them
        #[arg(long, value_enum, default_value = "interp")]
        engine: EngineArg,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Run a function
    #[command(
        after_help = "Example: tenon run examples/01_mlp.tn -i n=4 -i x=random@1 -i w0=random@2 -i b0=random@3 \
                            -i w1=random@4 -i b1=random@5"
    )]
    Run {
        /// A program
        file: PathBuf,
        #[command(flatten)]
        call: Call,
        #[command(flatten)]
        compile: Compile,
        /// What runs it
        #[arg(long, value_enum, default_value = "vm")]
        engine: EngineArg,
        /// Show the plan as well
        #[arg(long)]
        plan: bool,
        /// Run the interpreter and compiled code, with rewrites and without; exit 1 if they differ beyond rounding
        #[arg(long, conflicts_with = "engine")]
        compare: bool,
    },
    /// Time a function
    #[command(
        after_help = "Example: tenon bench examples/01_mlp.tn -i n=64 -i x=random -i w0=random -i b0=random \
                            -i w1=random -i b1=random"
    )]
    Bench {
        /// A program
        file: PathBuf,
        #[command(flatten)]
        call: Call,
        #[command(flatten)]
        compile: Compile,
        /// Runs that are timed
        #[arg(long, default_value_t = 50, value_parser = positive)]
        runs: usize,
    },
    /// Say where the time of a function goes: time, bytes and operations of each instruction
    #[command(
        after_help = "Example: tenon profile examples/01_mlp.tn -i n=64 -i x=random -i w0=random -i b0=random \
                            -i w1=random -i b1=random --trace trace.json"
    )]
    Profile {
        /// A program, or a compiled one
        file: PathBuf,
        #[command(flatten)]
        call: Call,
        #[command(flatten)]
        compile: Compile,
        /// Runs that are watched
        #[arg(long, default_value_t = 20, value_parser = positive)]
        runs: usize,
        /// Write the first run as events for chrome://tracing
        #[arg(long, value_name = "T.json")]
        trace: Option<PathBuf>,
        /// Use the machine code in a compiled program, if it was made for this CPU
        #[arg(long)]
        trust_native: bool,
    },
    /// Show the plan for each regime, with the alternatives and their costs
    #[command(after_help = "Example: tenon opt examples/01_mlp.tn --at n=1")]
    Opt {
        /// A program; or a folder of Hugging Face or a GGUF file: the step of its model
        file: PathBuf,
        /// The text of that model, if not one of the library's
        #[arg(long, value_name = "FILE.tn")]
        model: Option<PathBuf>,
        /// Dims to show the plan for
        #[arg(long, value_delimiter = ',', value_name = "DIM=N")]
        at: Vec<String>,
        /// Show the plan there and the one at these dims beside one another
        #[arg(long, value_delimiter = ',', value_name = "DIM=N", requires = "at", conflicts_with = "json")]
        beside: Vec<String>,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
        /// Write the rewritten module as text
        #[arg(short, value_name = "PLAN.tn")]
        output: Option<PathBuf>,
        #[command(flatten)]
        question: Question,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        compile: Compile,
    },
    /// Measure this machine: the file of its model, for `--machine`
    #[command(
        after_help = "Example: tenon calibrate -o here.toml && tenon opt examples/01_mlp.tn --machine here.toml"
    )]
    Calibrate {
        /// Write the file; without this it is printed
        #[arg(short, value_name = "MACHINE")]
        output: Option<PathBuf>,
        /// Threads
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(vm::threads::Pool::MOST)))]
        threads: Option<u16>,
    },
    /// Measure what plans are chosen from, and keep it in a text database, for `--db`
    #[command(after_help = "Example: tenon tune examples/01_mlp.tn --machine here.toml --db here.tune")]
    Tune {
        /// A program
        file: PathBuf,
        /// Begin no measurement after so many seconds; a further run goes on
        #[arg(long, value_name = "N", default_value_t = 60.0, value_parser = seconds)]
        seconds: f64,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        compile: Compile,
    },
    /// List the rewrite rules
    #[command(after_help = "Example: tenon rules examples/01_mlp.tn --check")]
    Rules {
        /// A program; without one, the library
        file: Option<PathBuf>,
        /// Run both sides of each on awkward dims and values; exit 1 if one does not hold
        #[arg(long)]
        check: bool,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// List the passes that may be left out, for `--without`
    #[command(after_help = "Example: tenon passes && tenon opt examples/01_mlp.tn --without fuse")]
    Passes {
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Compile to a program file
    #[command(after_help = "Example: tenon build examples/01_mlp.tn -o mlp.tnx")]
    Build {
        /// A program
        file: PathBuf,
        /// The compiled program
        #[arg(short, value_name = "OUT.tnx")]
        output: PathBuf,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        compile: Compile,
    },
    /// Run a compiled program
    #[command(
        after_help = "Example: tenon exec mlp.tnx -i x=randn[4,784] -i w0=randn[784,128] -i b0=zeros[128] \
                            -i w1=randn[128,10] -i b1=zeros[10]"
    )]
    Exec {
        /// A compiled program
        file: PathBuf,
        #[command(flatten)]
        call: Call,
        /// Use the machine code in the file, if it was made for this CPU
        #[arg(long)]
        trust_native: bool,
        /// Threads
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(vm::threads::Pool::MOST)))]
        threads: Option<u16>,
    },
    /// Show a program at a stage of the compiler
    #[command(after_help = "Example: tenon dis examples/01_mlp.tn --stage loops")]
    Dis {
        /// A program, or a compiled one; or a folder of Hugging Face or a GGUF file: the step of its model
        file: PathBuf,
        /// The text of that model, if not one of the library's
        #[arg(long, value_name = "FILE.tn")]
        model: Option<PathBuf>,
        /// The stage
        #[arg(long, value_enum, default_value = "bytecode")]
        stage: Stage,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        compile: Compile,
    },
    /// Compile a listing, as `dis` writes it, to a program file
    #[command(after_help = "Example: tenon dis mlp.tnx > mlp.tnasm && tenon asm mlp.tnasm -o mlp.tnx")]
    Asm {
        /// A listing of bytecode
        file: PathBuf,
        /// The compiled program
        #[arg(short, value_name = "OUT.tnx")]
        output: PathBuf,
    },
    /// Evaluate, explore alternatives and plans
    #[command(after_help = "Example: tenon repl examples/01_mlp.tn")]
    Repl {
        /// A program
        file: Option<PathBuf>,
    },
    /// Say what a diagnostic means
    #[command(after_help = "Example: tenon explain E0301")]
    Explain {
        /// A code
        code: String,
    },
    /// Let a language model go on behind a prompt
    #[command(after_help = "Example: tenon generate MODEL.gguf --chat 'What is a tenon?' --max-tokens 100")]
    Generate {
        #[command(flatten)]
        model: ModelArgs,
        #[command(flatten)]
        prompt: PromptArgs,
        #[command(flatten)]
        sampling: SamplingArgs,
        /// Write the logits of the prompt's positions
        #[arg(long, value_name = "OUT.npy")]
        logits: Option<PathBuf>,
        /// Tell the logarithm of each token's probability, and those of the N likeliest ones: `logprobs` in the JSON
        #[arg(long, value_name = "N", requires = "json")]
        logprobs: Option<usize>,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Talk with a language model; from a pipe, a turn a line
    #[command(after_help = "Example: tenon chat MODEL.gguf --system 'You answer in one sentence.'")]
    Chat {
        #[command(flatten)]
        model: ModelArgs,
        /// What the model is to be
        #[arg(long, value_name = "TEXT")]
        system: Option<String>,
        #[command(flatten)]
        sampling: SamplingArgs,
    },
    /// Vectors of texts
    #[command(
        after_help = "Example: tenon embed all-MiniLM-L6-v2 --text 'a mortise' --text 'a tenon' -o vectors.npy"
    )]
    Embed {
        #[command(flatten)]
        model: CheckpointArgs,
        #[command(flatten)]
        texts: TextArgs,
        /// Cut texts that have more tokens than the model takes; without this they are an error
        #[arg(long)]
        truncate: bool,
        /// Write the vectors, a row for each text, in the place of printing them
        #[arg(short, value_name = "OUT.npy")]
        output: Option<PathBuf>,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Score how well texts answer a query: the more, the better
    #[command(
        after_help = "Example: tenon rerank bge-reranker-base --query 'What is a tenon?' --text 'A joint.'"
    )]
    Rerank {
        #[command(flatten)]
        model: CheckpointArgs,
        /// What is asked
        #[arg(long, value_name = "TEXT")]
        query: String,
        /// A text that may answer it
        #[arg(long, value_name = "TEXT", required = true)]
        text: Vec<String>,
        /// Cut pairs that have more tokens than the model takes, the longer text first
        #[arg(long)]
        truncate: bool,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Say whether a language model fits into memory, and how fast it may be, before it is loaded
    #[command(after_help = "Example: tenon estimate MODEL.gguf --ctx 8192 --batch 4 --kv bf16")]
    Estimate {
        #[command(flatten)]
        model: ModelArgs,
        /// How many sequences go on together
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
        batch: usize,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Download a checkpoint of the Hugging Face Hub, or of the one at HF_ENDPOINT; HF_TOKEN holds a token for it
    #[command(
        after_help = "Example: tenon pull Qwen/Qwen3-0.6B && tenon generate Qwen3-0.6B --chat 'What is a tenon?'"
    )]
    Pull(PullArgs),
    /// Write a model into a folder of its own: its text, its weights as they are used, its vocabulary
    #[command(after_help = "Example: tenon import Qwen3-0.6B --quant q8_0 -o qwen && tenon chat qwen")]
    Import(ImportArgs),
    /// The tokens of a text
    #[command(after_help = "Example: tenon tokenize MODEL.gguf --text 'Hello, world'")]
    Tokenize {
        /// A folder of Hugging Face, a .gguf file, or the .tn file of a model beside either
        checkpoint: PathBuf,
        /// A file with the text; without it and --text, stdin
        #[arg(conflicts_with = "text")]
        file: Option<PathBuf>,
        /// The text
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// How surprised a language model is by a text
    #[command(after_help = "Example: tenon perplexity MODEL.gguf TEXT.txt --ctx 512")]
    Perplexity {
        #[command(flatten)]
        model: ModelArgs,
        /// The text
        file: PathBuf,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Serve a language model over HTTP
    #[command(after_help = "Example: tenon serve MODEL.gguf --port 8080\n  \
        curl localhost:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'")]
    Serve {
        #[command(flatten)]
        model: ModelArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Tokens a second: of a prompt, and of batches that go on by a token
    #[command(after_help = "Example: tenon bench-llm MODEL.gguf --pp 512 --tg 128 --batch 1,8")]
    BenchLlm {
        #[command(flatten)]
        model: ModelArgs,
        /// Tokens of the prompt
        #[arg(long, value_name = "N", default_value_t = 512, value_parser = positive)]
        pp: usize,
        /// Tokens that are made
        #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
        tg: usize,
        /// How many sequences go on together
        #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1", value_parser = positive)]
        batch: Vec<usize>,
        /// Runs that are timed
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
        runs: usize,
        /// Say where the time of steps goes as well: time, bytes and operations of each instruction
        #[arg(long)]
        profile: bool,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
}

/// Which function, with what, and where the results go.
#[derive(Args)]
pub(crate) struct Call {
    /// The function; an instance of a generic one is 'f<i32, 3>': its element types and numbers of axes
    #[arg(short, long)]
    pub(crate) entry: Option<String>,
    /// An argument: a .npy file, FILE.safetensors#NAME, a number, a generator such as randn[2,784]@SEED, random@SEED
    #[arg(short, value_name = "NAME=VALUE")]
    pub(crate) input: Vec<String>,
    /// Write each result to a file here
    #[arg(short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// End the run after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<f64>,
    /// End the run when it would hold more bytes; without it, what the machine has to give
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_limit: Option<usize>,
}

/// A time to wait.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0);
    seconds.ok_or_else(|| "not a number of seconds".to_owned())
}

/// By what a result may be off.
fn tolerance(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|t: &f64| t.is_finite() && *t > 0.0);
    part.ok_or_else(|| "not a positive number".to_owned())
}

/// A number that is not 0.
fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "not a number from 1 on".to_owned())
}

/// Which functions of a program, and for what.
#[derive(Args)]
pub(crate) struct Which {
    /// The function; without this all of them
    #[arg(short, long)]
    pub(crate) entry: Option<String>,
    /// For the dims that a config's file gives
    #[arg(long, value_name = "FILE.json")]
    pub(crate) config: Option<PathBuf>,
}

/// How to compile.
#[derive(Args)]
pub(crate) struct Compile {
    /// One kernel an operator, as the text says
    #[arg(long)]
    pub(crate) no_rewrites: bool,
    /// Plan by this pipeline where the text says none: one of the program's, or of std/pipelines.tn
    #[arg(long, value_name = "NAME", conflicts_with = "no_rewrites")]
    pub(crate) pipeline: Option<String>,
    /// Leave out this pass of rewriting or of code generation; `tenon passes` lists them
    #[arg(long, value_name = "PASS")]
    pub(crate) without: Vec<String>,
    /// Choose this implementation wherever it can be
    #[arg(long, value_name = "IMPL")]
    pub(crate) force: Vec<String>,
    /// Do not choose this implementation
    #[arg(long, value_name = "IMPL")]
    pub(crate) forbid: Vec<String>,
    /// Every function is invariant: the bits of a row do not depend on how many rows there are, or on threads
    #[arg(long)]
    pub(crate) invariant: bool,
    /// Let rules fire whose results are off by no more than this part, in functions without a `#[tolerance(..)]`
    #[arg(long, value_name = "T", value_parser = tolerance, conflicts_with = "no_rewrites")]
    pub(crate) tolerance: Option<f64>,
    /// No function tolerates anything, whatever its text says
    #[arg(long, conflicts_with = "tolerance")]
    pub(crate) exact: bool,
    /// A machine model to choose the plan for: a file, or `reference`; without it, the machine at hand
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// A database of measurements to choose the plan by, as `tenon tune` writes it
    #[arg(long, value_name = "DB")]
    pub(crate) db: Option<PathBuf>,
    /// The CPU to make code for
    #[arg(long, value_name = "NAME")]
    pub(crate) target_cpu: Option<String>,
    /// Let LLVM translate kernels without improving them: slow code, to tell a mistake of LLVM's from one of Tenon's
    #[arg(long)]
    pub(crate) plain: bool,
    /// Threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(vm::threads::Pool::MOST)))]
    pub(crate) threads: Option<u16>,
}

impl Compile {
    /// Refuses what has been decided where a program is compiled already.
    pub(crate) fn settled(&self) -> Result<(), Failure> {
        let asked = [
            (self.no_rewrites, "--no-rewrites"),
            (self.pipeline.is_some(), "--pipeline"),
            (!self.without.is_empty(), "--without"),
            (!self.force.is_empty(), "--force"),
            (!self.forbid.is_empty(), "--forbid"),
            (self.invariant, "--invariant"),
            (self.tolerance.is_some(), "--tolerance"),
            (self.exact, "--exact"),
            (self.target_cpu.is_some(), "--target-cpu"),
            (self.plain, "--plain"),
            (self.db.is_some(), "--db"),
        ];
        match asked.iter().find(|a| a.0) {
            Some((_, name)) => {
                let text = format!(
                    "{name} says how to compile, and this program is compiled: give it to `tenon build`"
                );
                Err(Failure::Usage(text))
            }
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    Vm,
    Interp,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    Ast,
    Ir,
    Plan,
    Loops,
    Llvm,
    Asm,
    Bytecode,
}
