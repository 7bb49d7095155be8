//! Pipelines: the passes of rewriting in the order in which they run, as `pipeline NAME { .. }` says it.
//!
//! The checker makes them of text and refuses an order in which a pass would find nothing to work on; rewriting carries
//! them out. A pass stands at one of four *levels*, which follow one another: functions ([`Pass::Inline`],
//! [`Pass::Outline`]), the graph of equal terms ([`Pass::Saturate`], [`Pass::Merge`], [`Pass::LoadTime`]), what
//! computes them ([`Pass::Fuse`], [`Pass::Library`], [`Pass::Regimes`]) and plans, which are functions again.
//! [`Pass::Own`] works on functions, and so stands before the graph or behind it.

use shape::Sym;

use crate::source::Span;

/// The pipeline that plans a function where nothing else is said.
pub const USUAL: &str = "usual";
/// The family of the rules that the program itself has.
pub const OWN: &str = "own";

/// An index in [`crate::Module::pipelines`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PipelineId(pub u32);

/// A pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pipeline {
    /// What the program's own files call it.
    pub name: Sym,
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// The name in the source.
    pub span: Span,
}

/// A pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pass {
    /// `inline`: calls of small functions, and of those that are given weights, are taken apart.
    Inline,
    /// `outline`: what a long text repeats becomes a function, which is planned once.
    Outline,
    /// `saturate algebra, shape, 2`: rules of one value add equal terms, for so many rounds or until there are no more.
    Saturate {
        /// Which rules.
        rules: Rules,
        /// The rounds at most; none: as many as the budget has.
        rounds: Option<usize>,
    },
    /// `merge`: rules of several values have a turn.
    Merge(Rules),
    /// `load_time`: what weights alone make of what was found so far may be made when they are loaded.
    LoadTime,
    /// `fuse`: groups of operators are offered as one kernel.
    Fuse,
    /// `library`: library functions that rules found are offered.
    Library,
    /// `regimes 2`: up to so many plans, each for a range of dims; without it one plan is for all.
    Regimes(Option<usize>),
    /// `pass NAME`: what whoever embeds the compiler gave that name.
    Own(Sym),
}

/// Some of a module's rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rules {
    /// Every one.
    All,
    /// Those of some families, and single ones.
    Of(Vec<Chosen>),
}

/// A family of rules, or a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its name.
    pub name: Sym,
    /// The definition of a rule; none: a family.
    pub rule: Option<Span>,
}

/// What a pass works on. Each level is made of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Functions as they are written.
    Functions,
    /// A graph of equal terms.
    Terms,
    /// What can compute each term.
    Implementations,
    /// Functions again: what was chosen.
    Plans,
}

impl Pipeline {
    /// Each pass with what it finds there. A pass of one's own works on functions, and behind the graph these are
    /// plans.
    pub fn levels(&self) -> impl Iterator<Item = (Level, &Pass)> {
        self.passes.iter().scan(Level::Functions, |now, pass| {
            *now = pass.level(*now);
            Some((*now, pass))
        })
    }
}

impl Pass {
    /// What it works on, where the one before it worked on `before`.
    pub fn level(&self, before: Level) -> Level {
        match self {
            Pass::Inline | Pass::Outline => Level::Functions,
            Pass::Saturate { .. } | Pass::Merge(_) | Pass::LoadTime => Level::Terms,
            Pass::Fuse | Pass::Library | Pass::Regimes(_) => Level::Implementations,
            Pass::Own(_) if before == Level::Functions => Level::Functions,
            Pass::Own(_) => Level::Plans,
        }
    }

    /// The word that it is written with.
    pub fn verb(&self) -> &'static str {
        match self {
            Pass::Inline => "inline",
            Pass::Outline => "outline",
            Pass::Saturate { .. } => "saturate",
            Pass::Merge(_) => "merge",
            Pass::LoadTime => "load_time",
            Pass::Fuse => "fuse",
            Pass::Library => "library",
            Pass::Regimes(_) => "regimes",
            Pass::Own(_) => "pass",
        }
    }
}

impl Rules {
    /// True for a rule of this family that is defined there.
    pub fn hold(&self, family: Sym, rule: Span) -> bool {
        match self {
            Rules::All => true,
            Rules::Of(list) => list.iter().any(|c| match c.rule {
                Some(span) => span == rule,
                None => c.name == family,
            }),
        }
    }
}
