//! A template's text, made harmless before it is compiled.
//!
//! The library counts what a template does, but not what its values are made of: `[a, a]` said sixty times is a value
//! that nobody can compare or write out. So whatever can make values deeper or share them is given to [`KEEP`], which
//! refuses what has become too large: lists, records and tuples that are written down, and what variables are set to.
//!
//! Long chains of operators are refused too, for the parser is recursive. `{% generation %}`, by which training marks
//! what the model says, becomes a block that always runs.

/// The function around values.
pub(crate) const KEEP: &str = "__keep";

/// The function around values that are set in a namespace, which lives longer than a loop.
pub(crate) const KEEP_IN: &str = "__keep_in";

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
        if kind == Kind::Word && [KEEP, KEEP_IN].contains(&text) {
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
    let values = literals(tokens);
    let set = first.is_some_and(|t| t.is("set"));
    let mut depth = 0usize;
    let mut dotted = false;
    let mut wrapped = false;
    for (at, token) in tokens.iter().enumerate() {
        out.push_str(token.blank);
        if values[at] == Place::Opens {
            out.push_str(KEEP);
            out.push('(');
        }
        out.push_str(token.text);
        match token.text {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth = depth.saturating_sub(1),
            "." => dotted |= depth == 0,
            _ => {}
        }
        if values[at] == Place::Closes {
            out.push(')');
        }
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

/// Where a list, a record or a tuple stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Elsewhere,
    Opens,
    Closes,
}

fn literals(tokens: &[Token<'_>]) -> Vec<Place> {
    let mut places = vec![Place::Elsewhere; tokens.len()];
    // Of each open bracket: where it is, whether it is a value if it has a comma, whether it has one.
    let mut open: Vec<(usize, bool, bool)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Sign {
            continue;
        }
        let behind = ends_value(tokens, at);
        match token.text {
            "{" => open.push((at, true, true)),
            "[" => open.push((at, !behind, true)),
            "(" => open.push((at, !behind, false)),
            "," => {
                if let Some(last) = open.last_mut() {
                    last.2 = true;
                }
            }
            "}" | "]" | ")" => {
                if let Some((begin, true, true)) = open.pop() {
                    places[begin] = Place::Opens;
                    places[at] = Place::Closes;
                }
            }
            _ => {}
        }
    }
    places
}
