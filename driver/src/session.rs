//! A session of exploring: a program, values bound by name, and answers to lines.
//!
//! A line is a definition, statements, or a command that begins with `:`. Statements are checked as a
//! function of the values bound so far and run; `let` binds what they give. Nothing here does input or
//! output but `:load`: the REPL of the command line, and whatever else shows a session, stands on top.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use check::{Files, Form, Input};
use ir::FuncId;
use ir::ast::{Expr, ExprKind, File, Item, Pattern, Stmt, StmtKind};
use ir::graph::Type;
use ir::source::SourceMap;
use shape::{Expr as Dim, Sym};
use tensor::Tensor;
use vm::Limits;

use crate::engine::{self, Engine};
use crate::library::Library;
use crate::pipeline::{self, Front, Options};
use crate::stage::{self, Stage};
use crate::{Failure, entry, modules};

/// A session.
pub struct Session {
    /// The texts so far; lines of the session too, so that faults can be shown in them.
    sources: SourceMap,
    /// The program: files loaded, a file for each line that defines something, and what they use.
    files: Files,
    values: Vec<Bound>,
    engine: Engine,
    options: Options,
}

/// A name that a line bound, and what it is.
struct Bound {
    name: Sym,
    form: Form,
    tensors: Vec<Tensor>,
}

impl Bound {
    /// Each of its tensors under its name.
    fn lines(&self) -> String {
        let paths = self.form.paths(self.name.name());
        paths.iter().zip(&self.tensors).map(|(path, t)| format!("{path}: {t}\n")).collect()
    }
}

/// The commands, with what they do.
const COMMANDS: &[(&str, &str)] = &[
    (":load FILE", "reads a program; its definitions stand beside those here"),
    (":defs", "the functions, primitives and rules of the program"),
    (":rules", "the rules of the program, each `tested`, `trusted` or `refused`"),
    (":values", "the values bound by `let`"),
    (":plan FN [n=64]", "the plan of a function for each regime, or for the dims given"),
    (":alts FN [n=64]", "the alternatives to each step of the plan, with their costs"),
    (":show STAGE FN", "a function at a stage: ir, plan, loops, llvm, asm, bytecode"),
    (":force IMPL, :forbid IMPL, :free", "steers the plan; `:free` takes all of that back"),
    (":pipeline NAME", "the pipeline by which functions are planned; `:free` gives the usual one back"),
    (":engine vm|interp", "what runs lines: compiled code or the oracle"),
    (":explain CODE", "what a diagnostic means"),
    (":help, :quit", ""),
];

impl Default for Session {
    fn default() -> Session {
        let sources = pipeline::sources();
        let mut options = Options::default();
        // A file that is named for it and wrong is told by the commands that plan for running.
        options.plan.machine = crate::at_hand::machine(None, &options.target).unwrap_or(options.plan.machine);
        Session { sources, files: Files::default(), values: vec![], engine: Engine::Interp, options }
    }
}

impl Session {
    /// The texts that failures speak of.
    pub fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// True if a line is not whole: a bracket is open.
    pub fn is_open(text: &str) -> bool {
        let depth = text.chars().fold(0i64, |d, c| match c {
            '(' | '[' | '{' => d + 1,
            ')' | ']' | '}' => d - 1,
            _ => d,
        });
        depth > 0
    }

    /// Answers a line; none for `:quit`.
    pub fn line(&mut self, text: &str) -> Option<Result<String, Failure>> {
        let text = text.trim();
        match text.strip_prefix(':') {
            Some(command) if matches!(command.trim(), "q" | "quit" | "exit") => None,
            Some(command) => Some(self.command(command)),
            None => Some(self.program(text)),
        }
    }

    /// Reads a program file into the session, with the files it uses.
    pub fn load(&mut self, path: &str) -> Result<String, Failure> {
        let text = crate::data::text(path)?;
        let id = self.sources.add(path, text);
        let (file, faults) = parser::parse(id, &self.sources.get(id).text);
        if !faults.is_empty() {
            return Err(Failure::Diagnostics(faults));
        }
        let count = file.items.len();
        self.adopt(file)?;
        Ok(format!("{path}: {count} definitions\n"))
    }

    /// Takes a file in if the program is right with it. A definition replaces an older one of its name.
    fn adopt(&mut self, file: File) -> Result<(), Failure> {
        let names: Vec<Sym> = file.items.iter().filter_map(name).collect();
        let before = self.files.clone();
        for f in &mut self.files.own {
            f.items.retain(|i| name(i).is_none_or(|n| !names.contains(&n)));
        }
        let mut faults = modules::collect(&mut self.sources, &mut self.files, &file, &modules::disk);
        self.files.own.push(file);
        let checked = check::check(&Library::get().all, &self.files);
        if faults.is_empty() && checked.ok() {
            return Ok(());
        }
        self.files = before;
        faults.extend(checked.diagnostics);
        Err(Failure::Diagnostics(faults))
    }

    fn front(&self) -> Front {
        let module = check::check(&Library::get().all, &self.files).module;
        let (sources, files) = (self.sources.clone(), self.files.clone());
        Front { sources, files, module, warnings: vec![], known: BTreeMap::new() }
    }

    fn program(&mut self, text: &str) -> Result<String, Failure> {
        let id = self.sources.add("<repl>", text);
        let (line, faults) = parser::parse_repl(id, text);
        if !faults.is_empty() {
            return Err(Failure::Diagnostics(faults));
        }
        match line {
            parser::Line::Empty => Ok(String::new()),
            parser::Line::Items(items) => {
                let names: Vec<String> = items.iter().filter_map(name).map(|n| n.to_string()).collect();
                self.adopt(File { source: id, items, ..File::default() })?;
                Ok(format!("defined {}\n", names.join(", ")))
            }
            parser::Line::Stmts(stmts) => self.statements(stmts),
        }
    }

    fn statements(&mut self, mut stmts: Vec<Stmt>) -> Result<String, Failure> {
        // `let y = e` gives y, so that it can be bound.
        let mut bound = Vec::new();
        let last = stmts.last().map(|s| (s.span, &s.kind));
        let pattern = match last {
            Some((span, StmtKind::Let(pattern, ..))) => Some((span, pattern.clone())),
            Some((span, StmtKind::Var(name, ..))) => Some((span, Pattern::Name(*name))),
            _ => None,
        };
        if let Some((span, pattern)) = pattern {
            bound.extend(pattern.names().into_iter().map(|n| n.name).filter(|n| n.name() != "_"));
            let named = |n: &Sym| Expr { kind: ExprKind::Name(*n), span };
            let value = match bound.as_slice() {
                [one] => named(one),
                many => Expr { kind: ExprKind::Tuple(many.iter().map(named).collect()), span },
            };
            stmts.push(Stmt { kind: StmtKind::Expr(value), span });
        }
        let ty =
            |t: &Tensor| Type { dtype: t.dtype(), shape: t.shape().iter().map(|d| Dim::int(*d)).collect() };
        let input = |v: &Bound| Input {
            name: v.name,
            form: v.form.clone(),
            types: v.tensors.iter().map(ty).collect(),
        };
        let inputs: Vec<Input> = self.values.iter().map(input).collect();
        let (checked, form) = check::check_line(&Library::get().all, &self.files, &inputs, &stmts);
        if !checked.ok() {
            return Err(Failure::Diagnostics(checked.diagnostics));
        }
        let entry = FuncId(checked.module.funcs.len() as u32 - 1);
        let args = self.values.iter().flat_map(|v| v.tensors.iter().cloned()).collect();
        let mut front = self.front();
        front.module = checked.module;
        let results = match self.engine {
            Engine::Interp => engine::interpret(&front, &front.module, entry, args)?,
            Engine::Vm => {
                let name = front.module.func(entry).name.clone();
                let compilation = pipeline::compile(&front, &[entry], &self.options)?;
                let exe = engine::load(&compilation, crate::kernels::threads()?)?;
                engine::execute(&exe, &name, &args, &Limits::default(), &front.sources)?
            }
        };
        let mut results = results.into_iter().map(|(_, t)| t);
        if bound.is_empty() {
            return Ok(results.map(|t| format!("{t}\n")).collect());
        }
        let forms = match form {
            Some(Form::Tuple(parts)) if bound.len() > 1 => parts,
            form => form.into_iter().collect(),
        };
        let mut out = String::new();
        for (name, form) in bound.into_iter().zip(forms) {
            let tensors = results.by_ref().take(form.paths("").len()).collect();
            let new = Bound { name, form, tensors };
            out.push_str(&new.lines());
            self.values.retain(|v| v.name != name);
            self.values.push(new);
        }
        Ok(out)
    }

    fn command(&mut self, text: &str) -> Result<String, Failure> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (verb, rest) = words.split_first().map_or(("", &[][..]), |(v, r)| (*v, r));
        let wrong = |text: String| Err(Failure::data(text));
        match (verb, rest) {
            ("load", [path]) => self.load(path),
            ("defs", []) => Ok(self.definitions()),
            ("rules", []) => Ok(self.rules()),
            ("values", []) => Ok(self.values.iter().map(Bound::lines).collect()),
            ("plan", [name, at @ ..]) => self.plan(name, at, false),
            ("alts", [name, at @ ..]) => self.plan(name, at, true),
            ("show", [stage, name]) => {
                let stage = match *stage {
                    "ir" => Stage::Ir,
                    "plan" => Stage::Plan,
                    "loops" => Stage::Loops,
                    "llvm" => Stage::Llvm,
                    "asm" => Stage::Asm,
                    "bytecode" => Stage::Bytecode,
                    other => {
                        return wrong(format!("no stage `{other}`: ir, plan, loops, llvm, asm, bytecode"));
                    }
                };
                stage::show(&mut self.front(), stage, Some(name), &self.options)
            }
            ("force", [name]) => {
                self.options.plan.force.push((*name).to_owned());
                Ok(String::new())
            }
            ("forbid", [name]) => {
                self.options.plan.forbid.push((*name).to_owned());
                Ok(String::new())
            }
            ("pipeline", [name]) => {
                let options = self.options.with_plan(|p| p.pipeline = Some((*name).to_owned()));
                crate::option_names::pipeline(&self.front().module, &options)?;
                self.options = options;
                Ok(String::new())
            }
            ("free", []) => {
                self.options.plan.pipeline = None;
                self.options.plan.force.clear();
                self.options.plan.forbid.clear();
                Ok(String::new())
            }
            ("engine", ["vm"]) => {
                self.engine = Engine::Vm;
                Ok(String::new())
            }
            ("engine", ["interp"]) => {
                self.engine = Engine::Interp;
                Ok(String::new())
            }
            ("explain", [code]) => match ir::diag::explain(&code.to_uppercase()) {
                Some(page) => Ok(page.to_string()),
                None => wrong(format!("no diagnostic has the code {code}")),
            },
            ("help", []) => Ok(COMMANDS.iter().fold(
                String::from("a definition, an expression, `let x = ..`, or\n"),
                |mut out, (form, what)| {
                    let _ = writeln!(out, "  {form:34} {what}");
                    out
                },
            )),
            _ => {
                let known = COMMANDS
                    .iter()
                    .map(|c| c.0.trim_start_matches(':').split([' ', ',']).next().unwrap_or(""));
                let form = COMMANDS.iter().find(|c| c.0.starts_with(&format!(":{verb} "))).map(|c| c.0);
                wrong(match (form, ir::diag::nearest(verb, known)) {
                    (Some(form), _) => format!("usage: {form}"),
                    (None, Some(near)) => format!("no command `:{verb}`; did you mean `:{near}`?"),
                    (None, None) => format!("no command `:{verb}`; `:help` lists them"),
                })
            }
        }
    }

    fn definitions(&self) -> String {
        let mut out = String::new();
        for item in self.files.own.iter().flat_map(|f| &f.items) {
            let doc = item.doc.first().map_or("", |d| d.trim());
            if let Some(name) = name(item) {
                let _ = writeln!(out, "{name:24} {doc}");
            }
        }
        out
    }

    fn rules(&self) -> String {
        let mut front = self.front();
        crate::admit::every_rule(&mut front);
        let statuses = crate::admit::listed(&front, self.options.store.as_ref());
        let spans = crate::admit::instances(&front.module).into_iter().map(|r| r.0);
        let name = |span| front.sources.snippet(span).to_owned();
        spans.zip(statuses).map(|(span, status)| format!("{:24} {status}\n", name(span))).collect()
    }

    fn plan(&self, name: &str, at: &[&str], alternatives: bool) -> Result<String, Failure> {
        let mut front = self.front();
        let mut options = self.options.clone();
        for text in at {
            let pair = text.split_once('=').and_then(|(n, v)| Some((n.to_owned(), v.parse::<i64>().ok()?)));
            options.plan.at.push(pair.ok_or_else(|| Failure::data(format!("`{text}` is not DIM=N")))?);
        }
        let entry = entry::find(&mut front, Some(name))?;
        let name = front.module.func(entry).name.clone();
        let (plan, mut report) = pipeline::plan(&front.module, &options);
        pipeline::no_fault(&report)?;
        report.functions.retain(|f| f.is_of(&name));
        crate::reduction_order::add_reduction_order(&plan, &mut report, &options.target);
        crate::admit::add_statuses(&front, &mut report, self.options.store.as_ref());
        if !alternatives {
            for step in report.functions.iter_mut().flat_map(|f| &mut f.regimes).flat_map(|r| &mut r.steps) {
                step.alternatives.clear();
            }
        }
        Ok(rewrites::render(&report))
    }
}

/// The name a definition defines.
fn name(item: &Item) -> Option<Sym> {
    use ir::ast::ItemKind;
    match &item.kind {
        ItemKind::Fn(d) => Some(d.sig.name.name),
        ItemKind::Prim(d) => Some(d.sig.name.name),
        ItemKind::Extern(d) => Some(d.sig.name.name),
        ItemKind::Rule(d) => Some(d.sig.name.name),
        ItemKind::Const(n, ..) => Some(n.name),
        ItemKind::Record(d) => Some(d.name.name),
        ItemKind::Encoding(d) => Some(d.name.name),
        ItemKind::Use(path) => path.last().map(|n| n.name),
        ItemKind::Pipeline(d) => Some(d.name.name),
        ItemKind::Schedule(_) | ItemKind::Config(_) | ItemKind::Test(_) => None,
    }
}
