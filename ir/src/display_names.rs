//! Display names: mangled names that the checker made, demangled for messages.
//!
//! A dim or a variable whose name is taken gets another, `k·2`, which no program can write. In a message it is `k`
//! again, unless the message speaks of another `k` too: then they are told apart as `k` and `k_2`.

/// What stands between the name that was written and a number.
const MARK: char = '·';

/// A name that no program can write, made of one that it does.
pub fn mangle(name: &str, number: usize) -> String {
    format!("{}{MARK}{number}", name.split(MARK).next().unwrap_or(name))
}

/// A message in the program's own names.
pub fn demangle(text: &str) -> String {
    if !text.contains(MARK) {
        return text.to_owned();
    }
    let words: Vec<&str> = pieces(text);
    let stem = |word: &str| word.split(MARK).next().unwrap_or_default().to_owned();
    let alone = |word: &str| words.iter().all(|w| *w == word || stem(w) != stem(word));
    let said = words.iter().map(|word| match word.contains(MARK) {
        true if alone(word) => stem(word),
        true => unmark(word),
        false => (*word).to_owned(),
    });
    said.collect()
}

/// A name that is told from others of its stem: `k_2`.
pub fn unmark(name: &str) -> String {
    name.replace(MARK, "_")
}

/// A text cut into words and what is between them.
fn pieces(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == MARK;
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        out.push(piece);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_said_as_it_was_written_where_nothing_else_has_it() {
        assert_eq!(demangle("dim k·2 = 3: k·2 <= n"), "dim k = 3: k <= n");
        assert_eq!(demangle("n·2 and n·3 of a·2"), "n_2 and n_3 of a");
        assert_eq!(demangle("k*k·2 == m"), "k*k_2 == m");
        assert_eq!(mangle("k·2", 3), "k·3");
    }
}
