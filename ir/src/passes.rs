//! Tables of passes: a row a pass, with its name and its meaning.
//!
//! In: the rows of a crate that has passes. Out: an enumeration of them, in the order of the rows. A name is that of
//! the pass's file, of its switch (`--without NAME`) and of its filetest.

/// Makes the enumeration of a table of passes.
#[macro_export]
macro_rules! passes {
    ($(#[$about:meta])* $table:ident: $($pass:ident $name:literal $meaning:literal)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $table {
            $(#[doc = $meaning] $pass,)*
        }

        impl $table {
            /// All of them, in the order in which they happen.
            pub const ALL: &[$table] = &[$($table::$pass),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $($table::$pass => $name,)* }
            }

            /// What it does, on one line.
            pub fn meaning(self) -> &'static str {
                match self { $($table::$pass => $meaning,)* }
            }

            /// The pass of a name.
            pub fn named(name: &str) -> Option<$table> {
                $table::ALL.iter().copied().find(|p| p.name() == name)
            }
        }
    };
}
