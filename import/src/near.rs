//! Names that are like one that is not there.

/// Longer names are not compared: they are no help to a reader.
const LONGEST: usize = 200;

/// How many pairs of bytes are compared at most.
const WORK: usize = 1 << 28;

/// The names nearest to `wanted`, at most three, the nearest first. None is told that differs in more than a third.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    if wanted.len() > LONGEST {
        return Vec::new();
    }
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut work = WORK;
    for name in names.filter(|n| n.len() <= LONGEST) {
        let bound = found.get(2).map_or(wanted.len() / 3 + 1, |worst| worst.0);
        if name.len().abs_diff(wanted.len()) > bound {
            continue;
        }
        let Some(left) = work.checked_sub(wanted.len() * name.len()) else { break };
        work = left;
        let far = distance(wanted.as_bytes(), name.as_bytes());
        if far <= bound {
            let at = found.partition_point(|f| f.0 <= far);
            found.insert(at, (far, name));
            found.truncate(3);
        }
    }
    found.into_iter().map(|f| f.1.to_owned()).collect()
}

/// How many bytes are to be put in, taken out or changed.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let names = ["model.layers.0.q.weight", "model.layers.0.k.weight", "lm_head.weight", "model.norm"];
        let near = nearest("model.layer.0.k.weight", names.into_iter());
        assert_eq!(near, ["model.layers.0.k.weight", "model.layers.0.q.weight"]);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert!(nearest("x", std::iter::once("quite something else")).is_empty());
    }
}
