//! The text of a seed: bytes, soups of tokens, programs made by the grammar, and programs of the
//! repository with something changed.

use std::path::Path;

use tensor::generate::Rng;

use super::generate::Choices;

/// The programs that are changed.
#[derive(Debug)]
pub struct Corpus(Vec<String>);

/// The longest program that is changed whole; of a longer one a stretch is taken.
const LONGEST: usize = 6_000;

impl Corpus {
    /// Every `.tn` file of the repository.
    pub fn read() -> Result<Corpus, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut paths = Vec::new();
        for folder in ["std", "examples", "filetests/suite", "parser/tests/carry"] {
            crate::collect(&root.join(folder), &mut paths).map_err(|e| format!("{folder}: {e}"))?;
        }
        paths.sort();
        let texts = paths.iter().map(std::fs::read_to_string).collect::<Result<Vec<String>, _>>();
        let texts = texts.map_err(|e| e.to_string())?;
        // What stages made of a program is comment, and comments change nothing.
        let program =
            |t: &String| t.lines().take_while(|l| !l.starts_with("// @")).map(|l| format!("{l}\n")).collect();
        Ok(Corpus(texts.iter().map(program).collect()))
    }
}

/// The text of a seed.
pub fn input(corpus: &Corpus, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    match seed % 8 {
        0 => bytes(&mut rng),
        1 => soup(&mut rng),
        2 | 3 => {
            let n = 20 + below(&mut rng, 600);
            let choices: Vec<u8> = (0..n).map(|_| below(&mut rng, 256) as u8).collect();
            parser::print(&Choices(&choices).file())
        }
        _ => changed(corpus, &mut rng),
    }
}

fn below(rng: &mut Rng, n: usize) -> usize {
    rng.below(n.max(1) as u64) as usize
}

fn pick<'a, T: ?Sized>(rng: &mut Rng, list: &[&'a T]) -> &'a T {
    list[below(rng, list.len())]
}

fn bytes(rng: &mut Rng) -> String {
    let bytes: Vec<u8> = (0..below(rng, 300)).map(|_| below(rng, 256) as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

const WORDS: &[&str] = &[
    "assert", "by", "const", "else", "exists", "extern", "false", "fn", "for", "if", "in", "let", "own",
    "prim", "true", "use", "var", "when", "where", "while", "config", "dim", "encoding", "record", "rule",
    "schedule", "test", "(", ")", "[", "]", "{", "}", ",", ":", ".", "..", "~", "#", "|", "->", "=>", "<=>",
    "=", "+=", "*=", "-=", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "@", "!", "&&", "||",
    ";", "x", "y", "T", "n", "f32", "i64", "f32[n]", "relu", "sum", "softmax", "zeros", "max", "block",
    "decode", "from", "axis", "0", "1", "12", "1.5", "1e", "\"s\"", "\"", "// c\n", "/// d\n", "//! e\n",
    "\n", "\n    ", "$", "é", "\\", "\u{202e}", "\0",
];

/// Numbers at the edges of what is represented.
const EDGES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "63",
    "64",
    "255",
    "4096",
    "2147483647",
    "2147483648",
    "4294967296",
    "4611686018427387904",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775807",
    "1e308",
    "1e999",
    "0.0",
    "0x7fffffffffffffff",
];

const LETTERS: &[&str] =
    &["é", "ß", "本", "🦀", "\u{200b}", "\u{feff}", "\u{202e}", "\u{0301}", "\r", "\t", "\u{2028}"];

fn soup(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..below(rng, 80) {
        text += pick(rng, WORDS);
        if below(rng, 8) != 0 {
            text.push(' ');
        }
    }
    text
}

/// A place in a text between two characters.
fn char_boundary(rng: &mut Rng, text: &str) -> usize {
    let at = below(rng, text.len() + 1);
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// A stretch of at most `most` bytes.
fn stretch(rng: &mut Rng, text: &str, most: usize) -> std::ops::Range<usize> {
    let lo = char_boundary(rng, text);
    let hi = (lo + below(rng, most)).min(text.len());
    lo..(hi..=text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len())
}

fn some(corpus: &Corpus, rng: &mut Rng) -> String {
    let text = &corpus.0[below(rng, corpus.0.len())];
    if text.len() <= LONGEST {
        return text.clone();
    }
    // From the beginning of a line.
    let at = char_boundary(rng, &text[..text.len() - LONGEST / 2]);
    let from = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let end = (from + LONGEST..).find(|&i| i >= text.len() || text.is_char_boundary(i)).unwrap_or(text.len());
    text[from..end.min(text.len())].to_owned()
}

/// The words and numbers of a text, as ranges.
fn words(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut out = Vec::new();
    let mut from = None;
    for (i, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c.is_ascii_alphanumeric() || c == '_', from) {
            (true, None) => from = Some(i),
            (false, Some(lo)) => {
                out.push(lo..i);
                from = None;
            }
            _ => {}
        }
    }
    out
}

fn changed(corpus: &Corpus, rng: &mut Rng) -> String {
    let mut text = some(corpus, rng);
    for _ in 0..1 + below(rng, 5) {
        match below(rng, 10) {
            0 => {
                let mut bytes = text.into_bytes();
                if !bytes.is_empty() {
                    let at = below(rng, bytes.len());
                    bytes[at] ^= 1 << below(rng, 8);
                }
                text = String::from_utf8_lossy(&bytes).into_owned();
            }
            1 => {
                let gone = stretch(rng, &text, 40);
                text.replace_range(gone, "");
            }
            2 => {
                // Twice, or a hundred times.
                let part = stretch(rng, &text, 60);
                let n = if below(rng, 8) == 0 { 100 } else { 1 };
                let again = text[part.clone()].repeat(n);
                text.insert_str(part.end, &again);
            }
            3 => {
                // Something of another program.
                let other = some(corpus, rng);
                let part = stretch(rng, &other, 200);
                let at = char_boundary(rng, &text);
                text.insert_str(at, &other[part]);
            }
            4 | 5 => {
                // A word for another of the same program: what parses is likely to parse again.
                let words = words(&text);
                if !words.is_empty() {
                    let (a, b) = (below(rng, words.len()), below(rng, words.len()));
                    let new = text[words[b].clone()].to_owned();
                    text.replace_range(words[a].clone(), &new);
                }
            }
            6 => {
                let numbers: Vec<_> =
                    words(&text).into_iter().filter(|w| text.as_bytes()[w.start].is_ascii_digit()).collect();
                if !numbers.is_empty() {
                    let at = numbers[below(rng, numbers.len())].clone();
                    text.replace_range(at, pick(rng, EDGES));
                }
            }
            7 => {
                let at = char_boundary(rng, &text);
                text.insert_str(at, pick(rng, LETTERS));
            }
            8 => {
                let at = char_boundary(rng, &text);
                text.insert_str(at, pick(rng, WORDS));
            }
            _ => {
                // Lines that change places.
                let mut lines: Vec<&str> = text.lines().collect();
                if lines.len() > 1 {
                    let (a, b) = (below(rng, lines.len()), below(rng, lines.len()));
                    lines.swap(a, b);
                }
                text = lines.join("\n");
            }
        }
    }
    text
}
