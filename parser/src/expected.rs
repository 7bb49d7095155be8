//! What to say of a syntax error.
//!
//! In: the token that could not stand where it stands, and the tokens of the grammar that could.
//! Out: one line in a reader's words. The grammar's list is long where an expression may begin or go
//! on; it is folded: all that begin an expression are "an expression", and operators are named only
//! where nothing else would end what went before.

use crate::lexer::{Lexeme, Token};

/// What ends or separates, in the order in which it is worth naming.
const NAMED: [&str; 31] = [
    "}", ")", "]", ",", ";", "=", ":", "{", "->", "=>", "<=>", "in", "by", "for", "else", "where", "when",
    ">", "|", ". ", "..", "(", "[", "<", "int", "str", "ident", "#", ".", "fn", "exists",
];

/// Tokens that begin an expression and nothing else.
const BEGINS: [&str; 5] = ["float", "true", "if", "!", "-"];

/// Tokens that only go on with an expression.
const OPERATORS: [&str; 6] = ["&&", "==", "+", "*", "@", "%"];

/// The name of a token of the grammar.
fn human(terminal: &str) -> String {
    match terminal {
        "ident" => "a name".into(),
        "int" => "a number".into(),
        "str" => "a text in quotes".into(),
        ";" => "the end of the line".into(),
        ". " => "`. `".into(),
        other => format!("`{other}`"),
    }
}

/// A hint for what people who come from another language write at `index`.
pub(crate) fn habit(tokens: &[Lexeme], index: usize) -> Option<&'static str> {
    let word = |i: Option<usize>| match i.and_then(|i| tokens.get(i)).map(|t| t.token) {
        Some(Token::Ident(s)) => s,
        Some(token) => token.text().unwrap_or(""),
        None => "",
    };
    let (before, here) = (word(index.checked_sub(1)), word(Some(index)));
    let (begun, next) = (word(index.checked_sub(2)), word(Some(index + 1)));
    // The word that the statement begins with, if an `=` may have been meant for an `==`.
    let begins = || {
        tokens[..index].iter().rev().take(24).map(|t| t.token).find(|t| {
            matches!(
                t,
                Token::Assert | Token::If | Token::While | Token::Semi(_) | Token::LBrace | Token::RBrace
            )
        })
    };
    if here == "=" && matches!(begins(), Some(Token::Assert | Token::If | Token::While)) {
        return Some("equality is written `==`");
    }
    Some(match (before, here) {
        (_, "where") if next == "(" => "it is written `select(c, a, b)`",
        (_, ",") if begun == "let" || begun == "var" => {
            "a pattern of several stands in parentheses: `let (a, b) = ..`"
        }
        ("->", "[")
        | ("f64" | "f32" | "f16" | "bf16" | "i64" | "i32" | "i16" | "i8" | "u8" | "bool", "[")
            if tokens.iter().any(|t| t.token == Token::Prim) =>
        {
            "what a primitive gives has a name: `-> y: f32[n]`"
        }
        ("f64" | "f32" | "f16" | "bf16" | "i64" | "i32" | "i16" | "i8" | "u8" | "bool", "(") => {
            "the extents of a type stand in brackets: `f32[n, 3]`"
        }
        (")", "if" | "where") if tokens.iter().any(|t| t.token == Token::Rule) => {
            "the condition of a rule is `when`, before its braces: `rule r(..) when n % 8 == 0 { .. }`"
        }
        (_, "if") => "a choice is written `if c { a } else { b }`",
        ("var", "(") => {
            "`var` declares one variable: `let (a, b) = ..`, then `var v = a`; the variance is `variance(x)`"
        }
        ("return", _) => "the last expression of a block is its value: leave `return` out",
        ("mut", _) => "what is assigned again is declared with `var`: `var x = ..`",
        ("+", "+") => "there is no `++`: write `i += 1`",
        ("*", "*") => "a power is a call: `pow(a, b)`",
        (_, "as") => "an element type is converted by its name: `f32(x)`",
        (_, "|") if next == ">" => "a function takes its value as an argument: `relu(x)`",
        (_, "for") if inside_index(tokens, index) => {
            "an array is not made by a loop: operators take whole tensors, and `map_rows(x, f)` is `f` of each row"
        }
        (_, "and") => "it is written `&&`",
        (_, "or") => "it is written `||`",
        ("not", _) => "it is written `!`",
        ("lambda", _) => "a closure is written `|v| v + 1`",
        (_, "elif" | "elsif" | "elseif") => "it is written `else if`",
        ("#", _) => "a comment begins with `//`; `#[..]` is an attribute",
        (_, ":") if inside_index(tokens, index) => {
            "a range of positions is written `a..b`, with a step `a..b by s`"
        }
        (")" | "]" | "}", ":") => "a body stands in braces: `{ .. }`",
        (")", "f64" | "f32" | "f16" | "bf16" | "i64" | "i32" | "i16" | "i8" | "u8" | "bool") => {
            "the type of a result follows an arrow: `-> f32[n]`"
        }
        _ => return None,
    })
}

/// True behind an open `[`.
fn inside_index(tokens: &[Lexeme], index: usize) -> bool {
    let mut open = 0;
    for t in tokens[..index].iter().rev() {
        let closes = matches!(t.token, Token::RBracket | Token::RParen | Token::RBrace);
        let opens = matches!(t.token, Token::LBracket | Token::LParen | Token::LBrace);
        if opens && open == 0 {
            return t.token == Token::LBracket;
        }
        open += i32::from(closes) - i32::from(opens);
    }
    false
}

/// The token as a reader sees it.
pub(crate) fn found(token: Option<&Token>) -> String {
    match token {
        None => "the end of the definition".into(),
        Some(Token::Semi(true)) => "the end of the line".into(),
        Some(Token::Semi(false)) => "`;`".into(),
        Some(Token::Ident(s) | Token::Int(s) | Token::Float(s) | Token::Str(s)) => format!("`{s}`"),
        Some(Token::Period) => "`.` before a blank".into(),
        Some(token) => token.text().map_or_else(|| "this".into(), |t| format!("`{t}`")),
    }
}

/// `expected .., found ..`; `expected` as lalrpop gives it, names in quotes.
pub(crate) fn message(expected: &[String], token: Option<&Token>) -> String {
    let names: Vec<&str> = expected.iter().map(|e| e.trim_matches('"')).collect();
    let has = |t: &str| names.contains(&t);
    let found = found(token);
    let mut parts: Vec<String> = Vec::new();
    let expression = BEGINS.iter().all(|t| has(t));
    let statement = expression && has("let");
    let going_on = OPERATORS.iter().all(|t| has(t));
    if has("fn") && has("record") {
        return match token {
            None => "expected a definition behind the attribute".into(),
            Some(_) => format!("expected a definition, found {found}"),
        };
    }
    if statement {
        parts.push("a statement".into());
    } else if expression {
        parts.push("an expression".into());
    } else if has("exists") && has("fn") {
        parts.push("a type".into());
    } else if has("ident") && has("own") {
        parts.push("a parameter".into());
    }
    let folded = !parts.is_empty();
    for &name in NAMED.iter().filter(|n| has(n)) {
        // These begin an expression or a type, or go on with one: said already, or not worth saying.
        let begins = folded
            && ["(", "[", "{", "|", "ident", "int", "str", "fn", "exists", "for", ".."].contains(&name);
        let goes_on = going_on && ["(", "[", ".", ">", "<", "ident", "="].contains(&name);
        if !begins && !goes_on {
            parts.push(human(name));
        }
    }
    if !folded && !going_on {
        // Inside a type argument or after a name: brackets that may follow matter least.
        let closing = parts.iter().any(|p| ["`)`", "`,`", "`}`", "`]`", "`=`", "`{`"].contains(&p.as_str()));
        if closing && parts.len() > 3 {
            parts.retain(|p| !["`[`", "`<`", "`(`", "`.`"].contains(&p.as_str()));
        }
    }
    if going_on && parts.len() < 3 {
        parts.insert(0, "an operator".into());
    }
    parts.truncate(4);
    match parts.as_slice() {
        [] => format!("unexpected {found}"),
        [one] => format!("expected {one}, found {found}"),
        [first @ .., last] => format!("expected {} or {last}, found {found}", first.join(", ")),
    }
}
