//! Shape hints: what would make one shape fit another, for the help of a diagnostic.
//!
//! In: the shape that is needed and the one that is there. Out: a rearrangement that gives the first from the
//! second for every value of the dims, or nothing: a hint that the checker would refuse in turn is worse than none.

use shape::Expr as Dim;

/// The call that turns a value of shape `got` into one of shape `want`.
pub(crate) fn rearranged(want: &[Dim], got: &[Dim]) -> Option<String> {
    if want.len() == got.len() {
        return permuted(want, got);
    }
    let without_ones =
        |shape: &[Dim]| -> Vec<Dim> { shape.iter().filter(|d| **d != Dim::int(1)).cloned().collect() };
    if without_ones(want) == without_ones(got) {
        return Some(format!("axes of extent 1 make the difference: `reshape[{}](..)`", list(want)));
    }
    (product(want) == product(got))
        .then(|| format!("both have as many elements: `reshape[{}](..)`", list(want)))
}

/// The order of the axes of `got` that gives `want`.
fn permuted(want: &[Dim], got: &[Dim]) -> Option<String> {
    let mut taken = vec![false; got.len()];
    let mut perm = Vec::new();
    for w in want {
        let axis = (0..got.len()).find(|&k| !taken[k] && got[k] == *w)?;
        taken[axis] = true;
        perm.push(axis);
    }
    if perm.windows(2).all(|p| p[0] < p[1]) {
        return None;
    }
    let mut matrix: Vec<usize> = (0..got.len()).collect();
    matrix.reverse();
    if perm.len() == 2 && perm == matrix {
        return Some(format!("transposed it is [{}]: `.T`", list(want)));
    }
    let perm: Vec<String> = perm.iter().map(usize::to_string).collect();
    Some(format!(
        "with its axes in another order it is [{}]: `transpose(.., perm=[{}])`",
        list(want),
        perm.join(", ")
    ))
}

/// Whether exchanging the last two axes of a tensor puts `want` on the given axis.
pub(crate) fn transposed(want: &Dim, shape: &[Dim], axis: usize) -> bool {
    let rank = shape.len();
    if rank < 2 || axis + 2 < rank {
        return false;
    }
    let other = if axis == rank - 1 { rank - 2 } else { rank - 1 };
    shape[other] == *want
}

/// The number of axes of extent 1 that `short` lacks at its right end to stretch to `long`, where they would do.
pub(crate) fn stretched(short: &[Dim], long: &[Dim]) -> Option<usize> {
    let missing = long.len().checked_sub(short.len()).filter(|n| *n > 0 && !short.is_empty())?;
    let one = Dim::int(1);
    let fits = short.iter().zip(long).all(|(s, l)| s == l || *s == one || *l == one);
    fits.then_some(missing)
}

/// `2, n`
pub(crate) fn list(dims: &[Dim]) -> String {
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")
}

fn product(shape: &[Dim]) -> Dim {
    shape.iter().fold(Dim::int(1), |p, d| p * d.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Vec<Dim> {
        text.split(", ").map(|d| d.parse().expect("a dim")).collect()
    }

    #[test]
    fn an_order_of_axes_is_found_where_there_is_one() {
        let hint = |a, b| rearranged(&shape(a), &shape(b));
        assert_eq!(hint("n, m", "m, n").as_deref(), Some("transposed it is [n, m]: `.T`"));
        assert!(hint("a, b, c", "c, a, b").is_some_and(|h| h.contains("perm=[1, 2, 0]")));
        assert_eq!(hint("n, m", "n, k"), None);
        assert_eq!(hint("n, n", "n, n"), None);
    }

    #[test]
    fn a_reshape_is_offered_where_it_keeps_every_element() {
        let hint = |a, b| rearranged(&shape(a), &shape(b));
        assert!(
            hint("n*m", "n, m")
                .is_some_and(|h| h.contains("`reshape[n*m](..)`") || h.contains("reshape[m*n]"))
        );
        assert!(hint("1, n", "n").is_some());
        assert_eq!(hint("n, m", "n"), None);
    }

    #[test]
    fn a_row_stretches_along_the_left_and_a_column_needs_an_axis() {
        assert_eq!(stretched(&shape("n"), &shape("n, m")), Some(1));
        assert_eq!(stretched(&shape("k"), &shape("n, m")), None);
        assert!(transposed(&"k".parse().expect("a dim"), &shape("n, k"), 0));
        assert!(!transposed(&"k".parse().expect("a dim"), &shape("k, n, m"), 0));
    }
}
