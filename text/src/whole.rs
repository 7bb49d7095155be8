//! A text, or two as one, as an encoder takes them: with what begins, separates and ends them, cut to a length.

/// The ids of a text, or of two as one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Whole {
    /// The ids.
    pub ids: Vec<u32>,
    /// Of each id which of the texts it is of, as the model counts them: mostly 0, and 1 for the second.
    pub segments: Vec<u32>,
    /// How many ids there were before it was cut.
    pub length: usize,
}

/// How much is left of two texts that are to have so many ids together: the longer one loses its last, until both fit.
pub(crate) fn share(most: usize, first: usize, second: usize) -> (usize, usize) {
    if first + second <= most {
        return (first, second);
    }
    let shorter = first.min(second).min(most / 2);
    if first <= second { (shorter, most - shorter) } else { (most - shorter, shorter) }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn the_longer_text_loses_its_last_ids() {
        assert_eq!(share(9, 4, 5), (4, 5));
        assert_eq!(share(9, 3, 50), (3, 6));
        assert_eq!(share(9, 50, 3), (6, 3));
        assert_eq!(share(9, 50, 60), (4, 5));
        assert_eq!(share(9, 60, 50), (5, 4));
        assert_eq!(share(8, 20, 0), (8, 0));
        assert_eq!(share(0, 2, 3), (0, 0));
    }
}
