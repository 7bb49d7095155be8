//! Types of elements: how many elements a block has, and how many bytes.

/// A block of a type: so many elements in so many bytes. Plain types have blocks of one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Layout {
    /// The elements of a block.
    pub elements: usize,
    /// The bytes of a block.
    pub bytes: usize,
}

impl Layout {
    /// The bytes of so many elements; none if they are no whole blocks, or too many.
    pub fn size(self, elements: usize) -> Option<usize> {
        if !elements.is_multiple_of(self.elements) {
            return None;
        }
        (elements / self.elements).checked_mul(self.bytes)
    }
}

/// The types of GGUF: the number in the file, the name, the elements and the bytes of a block. Numbers that are
/// missing were given to types that are gone.
const GGUF: [(u32, &str, usize, usize); 34] = [
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "q4_0", 32, 18),
    (3, "q4_1", 32, 20),
    (6, "q5_0", 32, 22),
    (7, "q5_1", 32, 24),
    (8, "q8_0", 32, 34),
    (9, "q8_1", 32, 36),
    (10, "q2_k", 256, 84),
    (11, "q3_k", 256, 110),
    (12, "q4_k", 256, 144),
    (13, "q5_k", 256, 176),
    (14, "q6_k", 256, 210),
    (15, "q8_k", 256, 292),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (20, "iq4_nl", 32, 18),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (23, "iq4_xs", 256, 136),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (30, "bf16", 1, 2),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17),
    (40, "nvfp4", 64, 36),
    (41, "q1_0", 128, 18),
];

/// The types that only safetensors have, by their names in lower case.
const SAFETENSORS: [(&str, usize, usize); 14] = [
    ("bool", 1, 1),
    ("u8", 1, 1),
    ("u16", 1, 2),
    ("u32", 1, 4),
    ("u64", 1, 8),
    ("c64", 1, 8),
    ("f8_e4m3", 1, 1),
    ("f8_e5m2", 1, 1),
    ("f8_e8m0", 1, 1),
    ("f4", 2, 1),
    ("f6_e2m3", 4, 3),
    ("f6_e3m2", 4, 3),
    ("f8_e4m3fnuz", 1, 1),
    ("f8_e5m2fnuz", 1, 1),
];

/// What a type is made of; none for a type that this crate does not know.
pub fn layout(kind: &str) -> Option<Layout> {
    let gguf = GGUF.iter().find(|row| row.1 == kind).map(|row| (row.2, row.3));
    let row = gguf.or_else(|| SAFETENSORS.iter().find(|row| row.0 == kind).map(|row| (row.1, row.2)));
    row.map(|(elements, bytes)| Layout { elements, bytes })
}

/// The number that a type has in GGUF.
pub(crate) fn number(kind: &str) -> Option<u32> {
    GGUF.iter().find(|row| row.1 == kind).map(|row| row.0)
}

/// The layout of a type of GGUF whose elements lie in blocks.
pub(crate) fn blocks(kind: &str) -> Option<Layout> {
    layout(kind).filter(|l| l.elements > 1 && number(kind).is_some())
}

/// The type that has this number in GGUF.
pub(crate) fn numbered(id: u32) -> Option<(&'static str, Layout)> {
    let row = GGUF.iter().find(|row| row.0 == id)?;
    Some((row.1, Layout { elements: row.2, bytes: row.3 }))
}

/// How many elements a shape has. None where the product, or that of the extents that are not 0, is beyond an `i64`.
pub(crate) fn count(shape: &[i64]) -> Option<usize> {
    let bound = shape.iter().try_fold(1i64, |n, &d| n.checked_mul(d.max(1)))?;
    let count = if shape.contains(&0) { 0 } else { bound };
    usize::try_from(count).ok()
}
