//! No text makes the parser panic or run long: soup of tokens, mutated programs, random bytes.

#![allow(clippy::disallowed_methods, reason = "what the front half may not do, its tests may")]

use crate::support::carried;
use ir::diag::render;
use ir::source::SourceMap;
use parser::{format, parse, parse_repl};

/// A generator of Marsaglia's; seeds are fixed, so every run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

fn feed(text: &str) {
    let mut sources = SourceMap::default();
    let id = sources.add("soup.tn", text);
    let (file, faults) = parse(id, text);
    for fault in &faults {
        let span = fault.span();
        assert!(span.lo <= span.hi && span.hi as usize <= text.len(), "{fault:?}\n{text}");
    }
    let shown = render(&faults[..faults.len().min(3)], &sources, false);
    assert_eq!(shown.is_empty(), faults.is_empty());
    let _ = parser::print(&file);
    if faults.is_empty() {
        let once = format(text).expect("it parsed");
        assert_eq!(format(&once).as_ref().ok(), Some(&once), "{text}");
    }
    let _ = parse_repl(id, text);
}

const WORDS: [&str; 86] = [
    "assert",
    "by",
    "const",
    "else",
    "exists",
    "extern",
    "false",
    "fn",
    "for",
    "if",
    "in",
    "let",
    "own",
    "prim",
    "true",
    "use",
    "var",
    "when",
    "where",
    "while",
    "config",
    "dim",
    "encoding",
    "record",
    "rule",
    "schedule",
    "test",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ".",
    "..",
    "~",
    "#",
    "|",
    "->",
    "=>",
    "<=>",
    "=",
    "+=",
    "*=",
    "-=",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "@",
    "!",
    "&&",
    "||",
    ";",
    "x",
    "y",
    "T",
    "block",
    "decode",
    "from",
    "max",
    "0",
    "12",
    "1.5",
    "1e",
    "99999999999999999999",
    "\"s\"",
    "\"",
    "// c\n",
    "/// d\n",
    "//! e\n",
    "\n",
    "\n",
    "\n    ",
    "$",
    "é",
    "\\",
];

#[test]
fn soup_of_tokens() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3000 {
        let n = random.below(60);
        let mut text = String::new();
        for _ in 0..n {
            text += WORDS[random.below(WORDS.len())];
            if random.below(8) != 0 {
                text.push(' ');
            }
        }
        feed(&text);
    }
}

#[test]
fn programs_with_bytes_changed() {
    let mut random = Random(42);
    let programs = carried();
    for round in 0..1500 {
        let mut bytes = programs[round % programs.len()].1.clone().into_bytes();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => {
                    bytes.remove(at);
                }
                2 => {
                    let word = WORDS[random.below(WORDS.len())];
                    bytes.splice(at..at, word.bytes());
                }
                _ => {
                    let end = (at + random.below(40)).min(bytes.len());
                    bytes.drain(at..end);
                }
            }
        }
        feed(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn random_bytes() {
    let mut random = Random(7);
    for _ in 0..1000 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        feed(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn large_faulty_files_take_linear_time() {
    let start = std::time::Instant::now();
    for piece in [
        "fn f( { ",
        "let x = \n",
        "} ",
        "( ",
        "$ ",
        "fn f() { let = \n",
        "x y z ;",
        "/// d\n",
        "#[",
        "rule ",
        "[ ) ",
        "{ ) ",
        "( } ",
        "[[)]",
        "f(x",
        "if x { ",
    ] {
        let text = piece.repeat(20_000);
        let (_, faults) = parse(Default::default(), &text);
        assert!(!faults.is_empty() || piece == "/// d\n", "{piece}");
    }
    // Seconds where something quadratic would take minutes; the bound is for slow machines.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}
