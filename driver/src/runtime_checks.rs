//! Runtime checks and binding times: what a program leaves to be known, and to be checked, while it runs
//! (`tenon check -v`).
//!
//! In: a checked program. Out: for each definition its dims with the stage at which each is known, and the checks that
//! remain, each with its place. A check that another one of the list implies is not listed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ir::Module;
use ir::ast::{Item, ItemKind, Mode, Signature};
use ir::display_names::demangle;
use ir::graph::{Func, Node, Op, ValId};
use ir::loops::{Prim, ScalarKind, Stmt};
use ir::source::{SourceMap, Span};
use serde::Serialize;
use shape::{Expr as Dim, Pred, Sym};

use crate::Front;

/// When a dim is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BindingTime {
    /// An attribute: another choice is another instance.
    Compile,
    /// A dim of a config.
    Load,
    /// Each call, or a place that the run passes, tells it.
    Step,
}

/// A dim of a definition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DimStage {
    /// Its name.
    pub name: String,
    /// When it is known.
    pub stage: BindingTime,
    /// Where it is opened; none: known at the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Location>,
}

/// A place of a text: line and column from 1, the column in characters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Location {
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The column.
    pub col: usize,
}

/// A check that runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunCheck {
    /// What asks for it.
    pub place: Location,
    /// `entry`, before the body begins; `reached`, where it stands; `access`, each index of an access; `caller`, what
    /// the definition's `where` asks of who calls it.
    pub when: &'static str,
    /// The condition, or the buffer whose index is checked.
    pub what: String,
    /// What it is for.
    pub why: String,
    /// What makes it a condition that callers see, where that may be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// A definition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Definition {
    /// `fn` or `prim`.
    pub kind: &'static str,
    /// The name of the instance.
    pub name: String,
    /// Its dims. Of a definition of the library only the checks are given.
    pub dims: Vec<DimStage>,
    /// Its checks.
    pub checks: Vec<RunCheck>,
}

/// A schedule that changes nothing yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unapplied {
    /// The primitive.
    pub prim: String,
    /// The schedule.
    pub place: Location,
}

/// What is left to the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RuntimeChecks {
    /// In the order of the module; those of which nothing is to be said are left out.
    pub definitions: Vec<Definition>,
    /// Schedules that code generation does not follow yet.
    pub schedules: Vec<Unapplied>,
}

/// Gathers it.
pub fn runtime_checks(front: &Front) -> RuntimeChecks {
    let view = View::new(front);
    let (module, mut definitions) = (&front.module, Vec::new());
    let tests: Vec<_> = module.tests.iter().map(|t| t.func).collect();
    for (i, func) in module.funcs.iter().enumerate() {
        let is_test = tests.contains(&ir::FuncId(i as u32));
        definitions.push(Definition {
            kind: if is_test { "test" } else { "fn" },
            name: module
                .tests
                .iter()
                .find(|t| t.func.0 as usize == i)
                .map_or(&func.name, |t| &t.name)
                .clone(),
            dims: view.func_dims(func),
            checks: view.func_checks(func),
        });
    }
    for prim in &module.prims {
        let dims = if view.is_own(prim.span) { view.dims(prim.span, &prim.dims) } else { vec![] };
        let checks = view.accesses(prim);
        definitions.push(Definition { kind: "prim", name: prim.name.clone(), dims, checks });
    }
    definitions.retain(|d| !d.dims.is_empty() || !d.checks.is_empty());
    let schedules = view.items.values().filter_map(|item| {
        let ItemKind::Schedule(d) = &item.kind else { return None };
        Some(Unapplied { prim: d.prim.name.to_string(), place: view.location(item.span) })
    });
    RuntimeChecks { definitions, schedules: schedules.collect() }
}

/// The program, with its definitions by place.
struct View<'f> {
    module: &'f Module,
    sources: &'f SourceMap,
    own: Vec<ir::source::SourceId>,
    /// By the place of the name; schedules by their own.
    items: BTreeMap<Span, &'f Item>,
}

/// The names under which dims are shown: the program's own where no two dims of the function have it, else they are
/// told apart as `k` and `k_2`.
fn shown(func: &Func) -> BTreeMap<Sym, Sym> {
    let mut all: Vec<Sym> = func.dims.clone();
    func.body.walk(&mut |node| {
        all.extend(&node.opens);
        all.extend(if let Op::BindDim(s, _) = &node.op { Some(*s) } else { None });
    });
    let stem = |s: &Sym| {
        let stem = ir::display_names::demangle(s.name());
        (stem != s.name()).then(|| Sym::new(&stem))
    };
    let alone = |s: &Sym, t: Sym| !all.contains(&t) && all.iter().all(|x| x == s || stem(x) != Some(t));
    let shown =
        |s: &Sym, t: Sym| if alone(s, t) { t } else { Sym::new(&ir::display_names::unmark(s.name())) };
    all.iter().filter_map(|s| stem(s).map(|t| (*s, shown(s, t)))).collect()
}

fn signature(item: &Item) -> Option<&Signature> {
    if let ItemKind::Fn(d) = &item.kind {
        return Some(&d.sig);
    }
    if let ItemKind::Prim(d) = &item.kind { Some(&d.sig) } else { None }
}

impl<'f> View<'f> {
    fn new(front: &'f Front) -> View<'f> {
        let files = || front.files.modules.iter().chain(&front.files.own);
        let place = |i: &Item| signature(i).map_or(i.span, |s| s.name.span);
        View {
            module: &front.module,
            sources: &front.sources,
            own: files().map(|f| f.source).collect(),
            items: files().flat_map(|f| &f.items).map(|i| (place(i), i)).collect(),
        }
    }

    fn is_own(&self, span: Span) -> bool {
        self.own.contains(&span.file)
    }

    fn location(&self, span: Span) -> Location {
        let (line, col) = self.sources.line_col(span);
        Location { file: self.sources.get(span.file).name.clone(), line, col }
    }

    /// The dims known at the entry of the definition at `span`.
    fn dims(&self, span: Span, dims: &[Sym]) -> Vec<DimStage> {
        let at_entry = |name: &str, stage| DimStage { name: name.to_owned(), stage, place: None };
        let sig = self.items.get(&span).and_then(|i| signature(i));
        let fixed = sig.into_iter().flat_map(|s| &s.params).filter(|p| p.mode == Mode::Const);
        let mut list: Vec<DimStage> =
            fixed.map(|p| at_entry(p.name.name.name(), BindingTime::Compile)).collect();
        let setting = |s: &Sym| self.module.settings.iter().any(|x| x.dtype.is_none() && x.name == *s);
        for s in dims {
            list.push(at_entry(s.name(), if setting(s) { BindingTime::Load } else { BindingTime::Step }));
        }
        list
    }

    fn func_dims(&self, func: &Func) -> Vec<DimStage> {
        if !self.is_own(func.span) {
            return vec![];
        }
        let mut list = self.dims(func.span, &func.dims);
        let names = shown(func);
        func.body.walk(&mut |node| {
            let bound = if let Op::BindDim(s, _) = &node.op { Some(s) } else { None };
            for s in node.opens.iter().chain(bound.filter(|s| !node.opens.contains(s))) {
                let place = Some(self.location(node.span));
                let name = names.get(s).unwrap_or(s).name().to_owned();
                list.push(DimStage { name, stage: BindingTime::Step, place });
            }
        });
        list
    }

    fn func_checks(&self, func: &Func) -> Vec<RunCheck> {
        let mut list: Vec<RunCheck> = Vec::new();
        if self.is_own(func.span) {
            for pred in &func.requires {
                list.push(RunCheck {
                    place: self.location(func.span),
                    when: "caller",
                    what: pred.to_string(),
                    why: "required by its `where`".to_owned(),
                    help: None,
                });
            }
        }
        let names = shown(func);
        let text = |p: &Pred| p.subst(&|s| names.get(&s).map(|t| Dim::sym(*t))).to_string();
        let at_call = |p: &Pred| p.syms().iter().all(|s| func.dims.contains(s));
        // What stands in a branch or a loop is no condition of the whole.
        let outermost: HashSet<*const Node> = func.body.nodes.iter().map(std::ptr::from_ref).collect();
        func.body.walk(&mut |node| match &node.op {
            Op::Check(pred, why) => {
                let at_entry = at_call(pred) && outermost.contains(&std::ptr::from_ref(node));
                let check = RunCheck {
                    place: self.location(node.span),
                    when: if at_entry { "entry" } else { "reached" },
                    what: text(pred),
                    // The condition is said already.
                    why: match why.strip_suffix(&format!(": `{pred}` does not hold")) {
                        Some(asks) => demangle(&format!("required by {asks}")),
                        None => demangle(why),
                    },
                    help: (at_entry && self.is_own(func.span) && self.items.contains_key(&func.span))
                        .then(|| format!("`where {pred}` on `{}` makes it known to callers", func.def)),
                };
                if !list.contains(&check) {
                    list.push(check);
                }
            }
            Op::BindDim(sym, preds) => {
                for pred in preds.iter().filter(|p| !self.implied(func, node.args[0], *sym, p)) {
                    list.push(RunCheck {
                        place: self.location(node.span),
                        when: "reached",
                        what: text(pred),
                        why: format!("dim {} is read from data", names.get(sym).unwrap_or(sym)),
                        help: None,
                    });
                }
            }
            Op::Const(_)
            | Op::Dim(_)
            | Op::Scalar(_)
            | Op::Cast
            | Op::Prim(..)
            | Op::Extern(..)
            | Op::Call(..)
            | Op::If(..)
            | Op::While { .. }
            | Op::Switch(_)
            | Op::Assert(_) => {}
        });
        list
    }

    /// Whether `0 <= k` goes without saying: the value is a dim, or counts rounds.
    fn implied(&self, func: &Func, value: ValId, sym: Sym, pred: &Pred) -> bool {
        let least = Pred::Le(Dim::int(0), Dim::sym(sym));
        *pred == least && (is_extent(func, value) || counters(func).contains(&value))
    }

    fn accesses(&self, prim: &Prim) -> Vec<RunCheck> {
        let mut list: Vec<RunCheck> = Vec::new();
        let mut note = |buf: ir::loops::BufId, span| {
            let check = RunCheck {
                place: self.location(span),
                when: "access",
                what: self.sources.snippet(span).to_owned(),
                why: format!("an index of `{}` could not be proved to be inside", prim.buf(buf).name),
                help: None,
            };
            if !list.contains(&check) {
                list.push(check);
            }
        };
        for stmt in &prim.body {
            stmt.walk(&mut |s| {
                if let Stmt::Store { buf, checked: true, span, .. } = s {
                    note(*buf, *span);
                }
                for scalar in s.scalars() {
                    scalar.walk(&mut |x| {
                        if let ScalarKind::Load { buf, checked: true, span, .. } = &x.kind {
                            note(*buf, *span);
                        }
                    });
                }
            });
        }
        list
    }
}

/// True for a value that is known to be a dim that cannot be negative.
fn is_extent(func: &Func, value: ValId) -> bool {
    func.val(value).dim.as_ref().is_some_and(|d| func.facts.prove_le(&Dim::int(0), d).is_proved())
}

/// What loops carry that begins at no less than zero and that a round adds to.
fn counters(func: &Func) -> BTreeSet<ValId> {
    let (mut made, mut found) = (BTreeMap::new(), BTreeSet::new());
    func.body.walk(&mut |node| made.extend(node.results.iter().map(|r| (*r, node))));
    let not_negative = |v: &ValId| match made.get(v).map(|n| &n.op) {
        Some(Op::Const(t)) => t.dtype().is_int() && t.rank() == 0 && t.get_i64(0) >= 0,
        Some(Op::Dim(d)) => func.facts.prove_le(&Dim::int(0), d).is_proved(),
        _ => is_extent(func, *v),
    };
    func.body.walk(&mut |node| {
        let Op::While { body, .. } = &node.op else { return };
        for ((first, param), next) in node.args.iter().zip(&body.params).zip(&body.results) {
            let adds = made.get(next).is_some_and(|n| {
                matches!(n.op, Op::Scalar(ir::Intrinsic::Add))
                    && n.args.contains(param)
                    && n.args.iter().filter(|a| *a != param).all(not_negative)
            });
            if not_negative(first) && adds {
                found.insert(*param);
            }
        }
    });
    found
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.col)
    }
}

impl std::fmt::Display for RuntimeChecks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for d in &self.definitions {
            writeln!(f, "{} {}", d.kind, d.name)?;
            for (stage, word) in
                [(BindingTime::Compile, "compile"), (BindingTime::Load, "load"), (BindingTime::Step, "step")]
            {
                let of =
                    |open: bool| d.dims.iter().filter(move |x| x.stage == stage && x.place.is_some() == open);
                let at_entry: Vec<&str> = of(false).map(|x| x.name.as_str()).collect();
                if !at_entry.is_empty() {
                    writeln!(f, "    known at {word}: {}", at_entry.join(", "))?;
                }
                for x in of(true) {
                    let place = x.place.iter().map(Location::to_string).collect::<String>();
                    writeln!(f, "    known at {word}: {}, from {place} on", x.name)?;
                }
            }
            for c in &d.checks {
                let when = match c.when {
                    "caller" => "asked of the caller",
                    "entry" => "checked at entry",
                    "access" => "checked at each access",
                    _ => "checked when reached",
                };
                writeln!(f, "    {}: {when}: {} ({})", c.place, c.what, c.why)?;
                if let Some(help) = &c.help {
                    writeln!(f, "        {help}")?;
                }
            }
        }
        for s in &self.schedules {
            writeln!(
                f,
                "{}: the schedule of {} is checked; code generation does not apply it yet",
                s.place, s.prim
            )?;
        }
        Ok(())
    }
}
