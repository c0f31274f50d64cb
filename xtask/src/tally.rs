//! Adding up the summaries that test runners print.

use std::fmt;
use std::ops::AddAssign;

/// How many tests went how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Tally {
    /// Reads a runner's last line: `test result: ok. 5 passed; 0 failed; 1 ignored; …`.
    pub fn of_line(line: &str) -> Option<Self> {
        let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word| {
            counts
                .split("; ")
                .find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }

    /// True when nothing failed.
    pub fn is_good(&self) -> bool {
        self.failed == 0
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_line_is_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 40 filtered out; finished in 0.52s";
        assert_eq!(
            Tally::of_line(line),
            Some(Tally {
                passed: 12,
                failed: 3,
                skipped: 1
            })
        );
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "",
            "test result: nonsense",
            "running 3 tests",
            "test a ... ok",
            "said: test result: ok. 1 passed",
        ] {
            assert_eq!(Tally::of_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn sums_print_skipped_only_when_there_are_some() {
        let mut sum = Tally {
            passed: 2,
            failed: 0,
            skipped: 0,
        };
        assert_eq!(sum.to_string(), "2 passed, 0 failed");
        sum += Tally {
            passed: 1,
            failed: 1,
            skipped: 4,
        };
        assert_eq!(sum.to_string(), "3 passed, 1 failed, 4 skipped");
        assert!(!sum.is_good());
    }
}
