//! Absorbed submissions: appended packed, a page at a time, and never rewritten but to forget.
//!
//! A row per entry would cost a duplicate more than a job costs raw SQLite. Entries are therefore packed into rows that
//! fill a page; what finds them - by token, by key - comes later and many at a time. Until then the writer knows the
//! tokens by heart, and whoever asks for a key looks through the rows that are not indexed yet. Tokens are never put into
//! an index: runs of them are written as they are.

mod kept;
mod packed;
mod runs;
mod written;

pub use kept::{
    Kept, broken, find, indexed, last, listed, of_key, of_key_in_tail, oldest, remove, rows_after, total,
};
pub use packed::{Packed, Words};
pub use written::Ledger;
