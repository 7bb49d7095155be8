//! The sorts of values that templates deal with.

use minijinja::Value;
use minijinja::value::ValueKind;

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    Undefined,
    None,
    Bool,
    Number,
    Text,
    List,
    Record,
    /// What can be gone through, but has no length.
    Items,
    /// A function, bytes, an error.
    Other,
}

impl Sort {
    /// What a value is.
    pub(crate) fn of(value: &Value) -> Sort {
        match value.kind() {
            ValueKind::Undefined => Sort::Undefined,
            ValueKind::None => Sort::None,
            ValueKind::Bool => Sort::Bool,
            ValueKind::Number => Sort::Number,
            ValueKind::String => Sort::Text,
            ValueKind::Seq => Sort::List,
            ValueKind::Map => Sort::Record,
            ValueKind::Iterable => Sort::Items,
            ValueKind::Bytes | ValueKind::Plain | ValueKind::Invalid | _ => Sort::Other,
        }
    }
}
