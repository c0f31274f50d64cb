//! How a module lists its cases.

/// Lists the cases of a module: `cases![ "2.8" => name_of_the_function, … ]`.
macro_rules! cases {
    ($($clause:literal => $name:ident),* $(,)?) => {
        /// The cases of this module.
        pub fn cases() -> Vec<crate::harness::Case> {
            vec![$(crate::harness::Case { clause: $clause, name: stringify!($name), run: $name }),*]
        }
    };
}
pub(crate) use cases;
