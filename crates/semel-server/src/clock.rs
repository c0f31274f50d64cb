//! The one place of this crate that reads the clock; moments come from [`semel::clock`].

pub use semel::clock::now;

/// A reading to measure lengths with.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
pub fn instant() -> std::time::Instant {
    std::time::Instant::now()
}
