//! Diagnostics: what is said about a program, as data, and the one renderer of it.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::source::{SourceMap, Span};

/// A fault or remark.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The row of [`CODES`] it belongs to: `E0201`.
    pub code: &'static str,
    /// How bad.
    pub severity: Severity,
    /// One line, lower case, with the values: `matmul: inner dims differ: 64 vs 32`.
    pub message: String,
    /// Places; the first is the main one.
    pub labels: Vec<Label>,
    /// Facts that help to understand: the equation, what is known.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Said, and compiled all the same.
    Warning,
    /// The program is refused.
    Error,
}

/// A place with a remark.
#[derive(Clone, Debug)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What about it; may be empty.
    pub text: String,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        debug_assert!(explain(code).is_some(), "{code} is not in the table of codes");
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            labels: vec![Label { span, text: String::new() }],
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning at a place.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Says something at the main place.
    #[must_use]
    pub fn here(mut self, text: impl Into<String>) -> Diagnostic {
        self.labels[0].text = text.into();
        self
    }

    /// Adds a place.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// The main place.
    pub fn span(&self) -> Span {
        self.labels[0].span
    }
}

/// A row of the table of codes: the page that `tenon explain` shows.
///
/// An example is the file `f.tn`, checked; or with a first line `$ tenon ..` what that command does with it.
/// `// @file a/b.tn` begins another file beside it. The wrong one gives this code and no other, the right one none:
/// a test of `cli` runs both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// `E0301`
    pub code: &'static str,
    /// What, in a few words.
    pub title: &'static str,
    /// Why it is said.
    pub cause: &'static str,
    /// A program that it is said of.
    pub wrong: &'static str,
    /// The same, mended.
    pub right: &'static str,
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}\n\n{}", self.code, self.title, self.cause)?;
        for (title, text) in [("Wrong", self.wrong), ("Mended", self.right)] {
            writeln!(f, "\n{title}:\n")?;
            for line in text.lines() {
                writeln!(f, "{}", format!("    {line}").trim_end())?;
            }
        }
        Ok(())
    }
}

/// Every code. E01: text. E02: names. E03: types and shapes. E04: primitives. E05: effects, rules,
/// bindings. E06: data given at run time. E07: not done yet.
pub const CODES: &[Code] = include!("codes.rs");

/// The row of a code.
pub fn explain(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|row| row.code == code)
}

/// Renders diagnostics as text, in the order given, a blank line between them.
pub fn render(diagnostics: &[Diagnostic], sources: &SourceMap, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    for d in diagnostics {
        let level = match d.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(d.message.as_str()).id(d.code));
        let mut files: Vec<_> = d.labels.iter().map(|l| l.span.file).collect();
        files.dedup();
        for file in files {
            let source = sources.get(file);
            let clamp = |at: u32| {
                let mut at = (at as usize).min(source.text.len());
                while !source.text.is_char_boundary(at) {
                    at -= 1;
                }
                at
            };
            // The lines from the first label to the last: the renderer reads all that it is given, for each diagnostic.
            let labels = || d.labels.iter().enumerate().filter(|(_, l)| l.span.file == file);
            let lo = labels().map(|(_, l)| clamp(l.span.lo)).min().unwrap_or(0);
            let hi = labels().map(|(_, l)| clamp(l.span.hi)).max().unwrap_or(0).max(lo);
            let start = source.text[..lo].rfind('\n').map_or(0, |i| i + 1);
            let end = source.text[hi..].find('\n').map_or(source.text.len(), |i| hi + i + 1);
            let (line, _) = sources.line_col(Span { file, lo: start as u32, hi: start as u32 });
            let mut snippet =
                Snippet::source(&source.text[start..end]).line_start(line).path(source.name.as_str());
            for (i, l) in labels() {
                let kind = if i == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
                let from = clamp(l.span.lo);
                let mut annotation = kind.span(from - start..clamp(l.span.hi).max(from) - start);
                if !l.text.is_empty() {
                    annotation = annotation.label(l.text.as_str());
                }
                snippet = snippet.annotation(annotation);
            }
            group = group.element(snippet);
        }
        for note in &d.notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        if let Some(help) = &d.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&renderer.render(&[group]));
        out.push('\n');
    }
    out
}

/// `1 argument`, `2 arguments`
pub fn count(n: usize, one: &str) -> String {
    count_of(n, one, &format!("{one}s"))
}

/// `1 axis`, `2 axes`
pub fn count_of(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// What people who come from elsewhere write, and what it is here.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "None",
        "there is no value that is nothing: leave the statement out; a new axis of an index is `newaxis`",
    ),
    ("assert_eq", "write `assert a == b`, and of tensors `assert same(a, b)` or `assert close(a, b)`"),
    ("null", "there is no value that is nothing; leave the statement out, or return a tuple"),
    ("True", "it is written `true`"),
    ("False", "it is written `false`"),
    ("self", "there are no methods; a function takes every value as a parameter"),
    ("np", "there are no modules to call into; operators are called by name: `exp(x)`"),
    ("numpy", "there are no modules to call into; operators are called by name: `exp(x)`"),
    ("torch", "there are no modules to call into; operators are called by name: `exp(x)`"),
    ("jnp", "there are no modules to call into; operators are called by name: `exp(x)`"),
    ("F", "there are no modules to call into; operators are called by name: `relu(x)`"),
    ("math", "there are no modules to call into; operators are called by name: `exp(x)`"),
    (
        "print",
        "a program prints nothing; `tenon run` shows its results, and `assert` tells of what must hold",
    ),
    ("len", "an extent is a dim of the type: `fn f<n>(x: f32[n])`"),
    ("range", "a loop runs over an extent or a range: `for i in n`, `for i in 2..n`"),
    ("size", "an extent is a dim of the type: `fn f<n>(x: f32[n])`"),
    ("Tensor", "a tensor's type says its elements and extents: `f32[n, 3]`"),
    ("ndarray", "a tensor's type says its elements and extents: `f32[n, 3]`"),
    ("float", "a float is `f32`, `f64`, `f16` or `bf16`"),
    ("double", "it is written `f64`"),
    ("float64", "it is written `f64`"),
    ("float32", "it is written `f32`"),
    ("float16", "it is written `f16`"),
    ("bfloat16", "it is written `bf16`"),
    ("int", "an integer is `i64`, `i32`, `i16` or `i8`"),
    ("int64", "it is written `i64`"),
    ("int32", "it is written `i32`"),
    ("int8", "it is written `i8`"),
    ("uint8", "it is written `u8`"),
    ("usize", "an extent is `i64`"),
    ("shape", "an extent is a dim of the type: `fn f<n>(x: f32[n])`, and `n` is a number in the body"),
    ("dtype", "an element type is a generic: `fn f<T, n>(x: T[n])`"),
    ("nn", "there are no modules to call into; a layer is a record of weights and a function"),
    ("cat", "it is written `concat(a, b, axis=1)`"),
    ("concatenate", "it is written `concat(a, b, axis=1)`"),
    ("mm", "a product of matrices is `a @ b`"),
    ("bmm", "a product of matrices is `a @ b`"),
    ("linear", "a linear layer is `x @ w + b`, where `w` is `[in, out]`"),
    ("Linear", "a linear layer is `x @ w + b`, where `w` is `[in, out]`"),
    ("permute", "axes in another order: `transpose(x, perm=[0, 2, 1])`"),
    ("view", "another shape is `reshape[m, _](x)`"),
    ("where", "it is written `select(c, a, b)`"),
    ("std", "it is written `deviation(x, axis=1)`"),
    ("norm", "lengths are `l2_norm(x, axis=1)`"),
    ("clamp", "it is written `clip(x, 0.0, 1.0)`"),
    ("clip_by_value", "it is written `clip(x, 0.0, 1.0)`"),
    ("power", "it is written `pow(a, b)`"),
    ("multiply", "it is written `a * b`"),
    ("subtract", "it is written `a - b`"),
    ("divide", "it is written `a / b`"),
    ("equal", "it is written `a == b`"),
    ("negative", "it is written `-x`"),
    ("absolute", "it is written `abs(x)`"),
    ("maximum", "it is written `max(a, b)`"),
    ("minimum", "it is written `min(a, b)`"),
    ("fmax", "it is written `max(a, b)`"),
    ("logical_and", "it is written `a && b`"),
    ("logical_or", "it is written `a || b`"),
    ("logical_not", "it is written `!a`"),
    ("randint", "random integers are `let (x, r) = integers[5](r, 0, 10)` of a generator `let r = rng(7)`"),
    ("rand", "random numbers are `let (x, r) = uniform[3, 4](r)` of a generator `let r = rng(7)`"),
    ("zeros_like", "it is written `zeros[..s]`, or `x * 0.0`"),
    ("ones_like", "it is written `ones[..s]`"),
    ("full_like", "it is written `full[..s](value)`"),
    ("scaled_dot_product_attention", "it is written `attention(q, k, v, causal=true)`"),
    ("Conv2d", "a convolution is `conv(x, w)`, with an offset `conv_bias(x, w, b)`"),
    ("conv2d", "a convolution of any number of axes is `conv(x, w)`, with an offset `conv_bias(x, w, b)`"),
    ("conv1d", "a convolution of any number of axes is `conv(x, w)`, with an offset `conv_bias(x, w, b)`"),
    ("max_pool2d", "pooling of any number of axes is `max_pool(x, size=2)`"),
    ("avg_pool2d", "pooling of any number of axes is `avg_pool(x, size=2)`"),
    ("swish", "it is written `silu(x)`"),
    ("nll_loss", "it is written `cross_entropy(logits, target)`"),
    ("mse_loss", "it is written `mse(a, b)`"),
    ("masked_fill", "values where a mask is true: `select(mask, value, x)`"),
    ("ndim", "a pack has a rank: `fn f<..s>(x: f32[..s])`, and `s.rank`"),
];

/// Methods of tensors elsewhere, and what is written here.
const METHODS: &[(&str, &str)] = &[
    ("view", "another shape is `reshape[m, _](x)`"),
    ("reshape", "another shape is `reshape[m, _](x)`"),
    ("permute", "axes in another order: `transpose(x, perm=[0, 2, 1])`"),
    ("transpose", "two axes exchanged: `swap_axes(x, a=1, b=2)`; the last two: `x.T`"),
    ("T", "it stands without parentheses: `x.T`"),
    ("t", "a matrix with its axes exchanged is `x.T`"),
    ("contiguous", "every tensor is: leave it out"),
    ("detach", "there are no gradients to leave: use the value itself"),
    ("numpy", "there is one kind of tensor: use the value itself"),
    ("clone", "values do not change: use the value itself"),
    ("copy", "values do not change: use the value itself"),
    ("item", "a tensor without axes is a number: use the value itself"),
    ("to", "an element type is converted by its name: `f16(x)`"),
    ("type", "an element type is converted by its name: `f16(x)`"),
    ("astype", "an element type is converted by its name: `f16(x)`"),
    ("float", "an element type is converted by its name: `f32(x)`"),
    ("double", "an element type is converted by its name: `f64(x)`"),
    ("half", "an element type is converted by its name: `f16(x)`"),
    ("bfloat16", "an element type is converted by its name: `bf16(x)`"),
    ("long", "an element type is converted by its name: `i64(x)`"),
    ("int", "an element type is converted by its name: `i32(x)`"),
    ("bool", "a truth is a comparison: `x != 0.0`"),
    ("size", "an extent is a dim of the type: `fn f<n>(x: f32[n])`, and `n` is a number in the body"),
    ("dim", "a pack has a rank: `fn f<..s>(x: f32[..s])`, and `s.rank`"),
    ("numel", "a pack has a size: `fn f<..s>(x: f32[..s])`, and `s.size`"),
    ("mm", "a product of matrices is `a @ b`"),
    ("bmm", "a product of matrices is `a @ b`"),
    ("chunk", "equal parts on a new axis: `split(x, parts=2)`"),
    ("masked_fill", "values where a mask is true: `select(mask, value, x)`"),
    ("var", "the variance is `variance(x, axis=1)`"),
    ("std", "the standard deviation is `deviation(x, axis=1)`"),
    ("norm", "lengths are `l2_norm(x, axis=1)`"),
    ("clamp", "kept within bounds: `clip(x, 0.0, 1.0)`"),
    ("cuda", "where a program runs is told when it is compiled: leave it out"),
    ("cpu", "where a program runs is told when it is compiled: leave it out"),
];

/// A hint for a method that tensors have elsewhere.
pub fn method(name: &str) -> Option<&'static str> {
    METHODS.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// A hint for a name that another language has.
pub fn elsewhere(name: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// The nearest of `candidates` to a misspelt name, if one is near enough to be worth a guess.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = name.chars().count();
    // Every name of one letter is near every other.
    if letters < 2 {
        return None;
    }
    let limit = (letters / 3).max(1);
    // Of equally near ones, that which begins alike.
    let unlike = |c: &str| letters - name.chars().zip(c.chars()).take_while(|(a, b)| a == b).count();
    candidates
        .into_iter()
        .map(|c| (distance(name, c), unlike(c), c))
        .filter(|&(d, _, c)| d <= limit && c != name && d < letters)
        .min()
        .map(|(.., c)| c)
}

/// Optimal string alignment distance: edits and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}
