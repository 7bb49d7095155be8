//! A template's text, made harmless before it is compiled.
//!
//! The library counts what a template does, but not what its values are made of: `[a, a]` said sixty times is a value
//! that nobody can compare or write out. So whatever can make values deeper or share them is given to [`KEEP`], which
//! refuses what has become too large: lists, records and tuples that are written down, sums and products, and what
//! variables are set to. What `~` joins is written by [`TEXT`], which counts it.
//!
//! Long chains of operators are refused too, for the parser is recursive. `{% generation %}`, by which training marks
//! what the model says, becomes a block that always runs.

/// The function around values.
pub(crate) const KEEP: &str = "__keep";

/// The function around values that are set in a namespace, which lives longer than a loop.
pub(crate) const KEEP_IN: &str = "__keep_in";

/// The function around what `~` joins.
pub(crate) const TEXT: &str = "__text";

/// The most words and signs of one tag.
const MAX_TAG: usize = 3000;

/// The most branches of conditions in a template.
const MAX_BRANCHES: usize = 400;

/// The most signs in a row, like `- - - x`, each of which is a level of its own.
const MAX_SIGNS: usize = 20;

/// A word or a sign within a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Word,
    Number,
    Text,
    Sign,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    /// The white space before it.
    blank: &'a str,
}

impl Token<'_> {
    fn is(&self, text: &str) -> bool {
        self.kind != Kind::Text && self.text == text
    }
}

/// Whether a value ends before a place, so that a bracket there belongs to it.
fn ends_value(tokens: &[Token<'_>], at: usize) -> bool {
    const BETWEEN: [&str; 8] = ["in", "is", "not", "and", "or", "if", "elif", "else"];
    const FIRST: [&str; 5] = ["do", "include", "extends", "import", "from"];
    let Some(token) = at.checked_sub(1).and_then(|before| tokens.get(before)) else { return false };
    // Behind a dot any word is the name of a field.
    let field = at > 1 && tokens[at - 2].is(".");
    match token.kind {
        Kind::Text | Kind::Number => true,
        Kind::Word => field || !(BETWEEN.contains(&token.text) || at == 1 && FIRST.contains(&token.text)),
        Kind::Sign => matches!(token.text, ")" | "]" | "}"),
    }
}

/// The text to compile.
pub(crate) fn rewrite(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    let mut branches = 0;
    while let Some(at) = rest.find("{") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let (open, close) = match tag.get(..2) {
            Some("{{") => ("{{", "}}"),
            Some("{%") => ("{%", "%}"),
            Some("{#") => {
                let end = tag.find("#}").map_or(tag.len(), |end| end + 2);
                out.push_str(&tag[..end]);
                rest = &tag[end..];
                continue;
            }
            _ => {
                out.push('{');
                rest = &tag[1..];
                continue;
            }
        };
        let body = &tag[open.len()..];
        let mark = usize::from(body.starts_with(['-', '+']));
        let (mark, body) = body.split_at(mark);
        out.push_str(open);
        out.push_str(mark);
        let (tokens, end) = tokens(body, close)?;
        if tokens.first().is_some_and(|t| t.is("raw")) && open == "{%" {
            let end = end_of_raw(body);
            out.push_str(&body[..end]);
            rest = &body[end..];
            continue;
        }
        branches += usize::from(open == "{%" && tokens.first().is_some_and(|t| t.is("elif")));
        if branches > MAX_BRANCHES {
            return Err(format!("it has more than {MAX_BRANCHES} branches"));
        }
        write_tag(&tokens, open == "{%", &mut out);
        rest = &body[end..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Where a raw block ends: behind its last tag.
fn end_of_raw(body: &str) -> usize {
    let mut from = 0;
    while let Some(at) = body[from..].find("{%") {
        let tag = from + at + 2;
        let name = body[tag..].trim_start_matches(['-', '+']).trim_start();
        if name.starts_with("endraw") {
            return body[tag..].find("%}").map_or(body.len(), |end| tag + end + 2);
        }
        from = tag;
    }
    body.len()
}

/// The words and signs up to the end of a tag, and where that is.
fn tokens<'a>(body: &'a str, close: &str) -> Result<(Vec<Token<'a>>, usize), String> {
    let mut tokens: Vec<Token<'a>> = Vec::new();
    let mut depth = 0usize;
    let mut signs = 0;
    let mut at = 0;
    loop {
        let rest = &body[at..];
        let blank = rest.len() - rest.trim_start().len();
        let (blank, rest) = rest.split_at(blank);
        let marked = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        if rest.is_empty() || (depth == 0 && (rest.starts_with(close) || marked.starts_with(close))) {
            return Ok((tokens, at));
        }
        let first = rest.chars().next().unwrap_or_default();
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let (kind, len) = match first {
            '"' | '\'' => (Kind::Text, text_len(rest, first)),
            c if c.is_ascii_digit() => (Kind::Number, rest.find(|c| !word(c)).unwrap_or(rest.len())),
            c if word(c) => (Kind::Word, rest.find(|c| !word(c)).unwrap_or(rest.len())),
            _ if rest.starts_with("==") => (Kind::Sign, 2),
            _ if ["!=", "<=", ">="].iter().any(|s| rest.starts_with(s)) => (Kind::Sign, 2),
            c => (Kind::Sign, c.len_utf8()),
        };
        let text = &rest[..len];
        if kind == Kind::Word && [KEEP, KEEP_IN, TEXT].contains(&text) {
            return Err(format!("the name {text:?} is taken"));
        }
        match text {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        signs = if matches!(text, "not" | "-" | "+") { signs + 1 } else { 0 };
        if signs > MAX_SIGNS {
            return Err(format!("more than {MAX_SIGNS} signs stand in a row"));
        }
        tokens.push(Token { kind, text, blank });
        if tokens.len() > MAX_TAG {
            return Err(format!("a tag has more than {MAX_TAG} words and signs"));
        }
        at += blank.len() + len;
    }
}

/// The length of a text in quotes.
fn text_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Writes a tag's words and signs, with calls around values.
fn write_tag(tokens: &[Token<'_>], statement: bool, out: &mut String) {
    let first = tokens.first().filter(|_| statement);
    if let ([only], true) = (tokens, statement) {
        let new = match only.text {
            "generation" => "if true",
            "endgeneration" => "endif",
            same => same,
        };
        out.push_str(only.blank);
        out.push_str(new);
        return;
    }
    let calls = calls(tokens, statement);
    let set = first.is_some_and(|t| t.is("set"));
    let mut depth = 0usize;
    let mut dotted = false;
    let mut wrapped = false;
    for (at, token) in tokens.iter().enumerate() {
        out.push_str(token.blank);
        for name in calls[at].before.iter().rev() {
            out.push_str(name);
            out.push('(');
        }
        out.push_str(token.text);
        match token.text {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth = depth.saturating_sub(1),
            "." => dotted |= depth == 0,
            _ => {}
        }
        (0..calls[at].after).for_each(|_| out.push(')'));
        if set && !wrapped && depth == 0 && token.is("=") {
            out.push_str(if dotted { KEEP_IN } else { KEEP });
            out.push_str("((");
            wrapped = true;
        }
    }
    if wrapped {
        out.push_str("))");
    }
}

/// The calls that begin before a word or sign, the outermost last, and how many end behind it.
#[derive(Clone, Default, Debug)]
struct Calls {
    before: Vec<&'static str>,
    after: usize,
}

/// A bracket that is open, or a tag.
struct Open {
    /// Where it is; a tag has none.
    at: Option<usize>,
    /// Whether it is a value if it has a comma, and whether it has one.
    value: bool,
    comma: bool,
    /// Where the sum in it begins, and the part of it between two signs.
    sum: usize,
    part: usize,
    /// Whether the sum has a sign, whether the part is joined to others, and the parts that are.
    signs: bool,
    joined: bool,
    parts: Vec<(usize, usize)>,
}

impl Open {
    fn new(at: Option<usize>, value: bool, comma: bool, begin: usize) -> Open {
        let (signs, joined) = (false, false);
        Open { at, value, comma, sum: begin, part: begin, signs, joined, parts: Vec::new() }
    }

    /// Ends a part before a place. `joins` says that `~` is there.
    fn end_part(&mut self, at: usize, joins: bool) {
        if self.joined || joins {
            self.parts.push((self.part, at));
        }
        (self.part, self.joined, self.signs) = (at + 1, joins, true);
    }

    /// Ends a sum before a place.
    fn end_sum(&mut self, at: usize, calls: &mut [Calls]) {
        if self.joined {
            self.parts.push((self.part, at));
        }
        let mut call = |name, from: usize, to: usize| {
            if from < to {
                calls[from].before.push(name);
                calls[to - 1].after += 1;
            }
        };
        self.parts.drain(..).for_each(|(from, to)| call(TEXT, from, to));
        if self.signs {
            call(KEEP, self.sum, at);
        }
        (self.sum, self.part, self.signs, self.joined) = (at + 1, at + 1, false, false);
    }
}

/// Whether a word ends a sum: it is an operator that binds less.
fn is_between(tokens: &[Token<'_>], at: usize) -> bool {
    const BETWEEN: [&str; 8] = ["and", "or", "in", "if", "elif", "else", "not", "recursive"];
    let before = |n: usize| at.checked_sub(n).map(|k| tokens[k]);
    let is = |n: usize, text: &str| before(n).is_some_and(|t| t.is(text));
    // Tests and fields have any name.
    let named = is(1, ".") || is(1, "is") || (is(1, "not") && is(2, "is"));
    tokens[at].kind == Kind::Word && BETWEEN.contains(&tokens[at].text) && !named
}

/// The calls around lists, records and tuples, around sums and products, and around what is joined.
fn calls(tokens: &[Token<'_>], statement: bool) -> Vec<Calls> {
    let mut calls = vec![Calls::default(); tokens.len()];
    let mut open = vec![Open::new(None, false, false, usize::from(statement))];
    for (at, token) in tokens.iter().enumerate().skip(usize::from(statement)) {
        let Some(inner) = open.last_mut() else { break };
        if is_between(tokens, at) {
            inner.end_sum(at, &mut calls);
        }
        if token.kind != Kind::Sign {
            continue;
        }
        let behind = ends_value(tokens, at);
        match token.text {
            "{" => open.push(Open::new(Some(at), true, true, at + 1)),
            "[" => open.push(Open::new(Some(at), !behind, true, at + 1)),
            "(" => open.push(Open::new(Some(at), !behind, false, at + 1)),
            "," => {
                inner.comma = true;
                inner.end_sum(at, &mut calls);
            }
            ":" | "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" => inner.end_sum(at, &mut calls),
            "~" => inner.end_part(at, true),
            "+" | "-" if behind => inner.end_part(at, false),
            // `f(*list)` is no product.
            "*" if behind => inner.signs = true,
            "}" | "]" | ")" => {
                inner.end_sum(at, &mut calls);
                // The tag itself stays open, whatever it has.
                if let Some(begin) = inner.at {
                    if inner.value && inner.comma {
                        calls[begin].before.push(KEEP);
                        calls[at].after += 1;
                    }
                    open.pop();
                }
            }
            _ => {}
        }
    }
    if let Some(tag) = open.first_mut() {
        tag.end_sum(tokens.len(), &mut calls);
    }
    calls
}
