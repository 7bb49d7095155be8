//! How large a regular expression of a file becomes, before it is compiled.
//!
//! Counted repetitions are unrolled, nested ones multiply. A short pattern can so ask for any amount of memory.

/// The most that a pattern may become, in characters.
const MAX: u64 = 200_000;

/// Refuses a pattern that becomes too large.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    match size(pattern) {
        n if n > MAX => Err(format!("a regular expression is too large when unrolled: {n} characters")),
        _ => Ok(()),
    }
}

/// An upper bound of a pattern's size when all repetitions are written out.
fn size(pattern: &str) -> u64 {
    // For each open group: what it has so far, and its last item.
    let mut groups: Vec<(u64, u64)> = vec![(0, 0)];
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        let (sum, last) = groups.pop().unwrap_or((0, 0));
        let settled = sum.saturating_add(last);
        match c {
            '(' => groups.extend([(settled, 0), (0, 0)]),
            ')' => {
                let (outer, _) = groups.pop().unwrap_or((0, 0));
                groups.push((outer, settled.saturating_add(1)));
            }
            '{' => {
                let mut most = 0u64;
                let mut number = 0u64;
                for c in rest.by_ref().take_while(|&c| c != '}') {
                    number = c.to_digit(10).map_or(0, |d| number.saturating_mul(10).saturating_add(d.into()));
                    most = most.max(number);
                }
                groups.push((sum, last.saturating_mul(most.max(1))));
            }
            '\\' => {
                let class = matches!(rest.next(), Some('p' | 'P' | 'x' | 'u'));
                if class && rest.peek() == Some(&'{') {
                    rest.by_ref().take_while(|&c| c != '}').for_each(drop);
                }
                groups.push((settled, 1));
            }
            _ => groups.push((settled, 1)),
        }
    }
    groups.into_iter().fold(0, |all, (sum, last)| all.saturating_add(sum).saturating_add(last))
}
