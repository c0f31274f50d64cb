//! What the model has visited: who held the key, what the newcomer asked for, how far the holder was.

use std::collections::BTreeMap;
use std::fmt;

use semel_core::dedup::{HoldKind, OnDuplicate};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::Job;

use crate::rng::Rng;

/// How far the holder was when the duplicate came (the columns of contract 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HolderState {
    /// Never leased.
    NotStarted,
    /// Leased before, not ended.
    Started,
    /// Ended, its key kept.
    TerminalKept,
}

impl HolderState {
    /// The columns, in the order of the contract.
    pub const ALL: [HolderState; 3] = [
        HolderState::NotStarted,
        HolderState::Started,
        HolderState::TerminalKept,
    ];

    /// Where a job that holds its key stands; `None` while its lease has run out and nobody has
    /// noticed yet, because the next write moves it first.
    pub fn of(job: &Job, now: Timestamp) -> Option<Self> {
        let ran_out = job.lease_until.is_some_and(|until| until <= now);
        match (job.state.is_terminal(), job.started_at) {
            _ if ran_out => None,
            (true, _) => Some(HolderState::TerminalKept),
            (false, Some(_)) => Some(HolderState::Started),
            (false, None) => Some(HolderState::NotStarted),
        }
    }

    fn word(self) -> &'static str {
        match self {
            HolderState::NotStarted => "not_started",
            HolderState::Started => "started",
            HolderState::TerminalKept => "terminal_kept",
        }
    }
}

/// One cell: the holder's hold, the newcomer's answer, the holder's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// How the holder keeps its key.
    pub hold: HoldKind,
    /// What the newcomer wants when the key is held: its place in [`ANSWERS`].
    pub on_duplicate: &'static str,
    /// How far the holder was.
    pub holder: HolderState,
}

/// The five answers, by their words.
pub const ANSWERS: [&str; 5] = ["use_existing", "reject", "replace", "debounce", "latest"];

impl Cell {
    /// The cell of a duplicate.
    pub fn new(hold: HoldKind, on_duplicate: OnDuplicate, holder: HolderState) -> Self {
        Cell {
            hold,
            on_duplicate: on_duplicate.word(),
            holder,
        }
    }

    /// Whether the rules let this cell happen.
    ///
    /// An `until_started` key is never kept past the end; a *started* holder has one only after a
    /// manual retry, which takes the key again. The newcomer's answer meets any hold, as the hold is
    /// the holder's.
    pub fn is_legal(&self) -> bool {
        !(self.hold == HoldKind::UntilStarted && self.holder == HolderState::TerminalKept)
    }

    /// Every legal cell.
    pub fn legal() -> impl Iterator<Item = Cell> {
        let cells = HoldKind::ALL.into_iter().flat_map(|hold| {
            ANSWERS.into_iter().flat_map(move |on_duplicate| {
                HolderState::ALL.into_iter().map(move |holder| Cell {
                    hold,
                    on_duplicate,
                    holder,
                })
            })
        });
        cells.filter(Cell::is_legal)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<14} {:<12} {:<13}",
            self.hold.word(),
            self.on_duplicate,
            self.holder.word()
        )
    }
}

/// How often each cell was visited.
pub type Visits = BTreeMap<Cell, u64>;

/// The legal cells visited less often than `least`.
pub fn neglected(visits: &Visits, least: u64) -> Vec<Cell> {
    Cell::legal()
        .filter(|cell| visits.get(cell).copied().unwrap_or(0) < least)
        .collect()
}

/// One line per legal cell.
pub fn table(visits: &Visits) -> String {
    let line = |cell: Cell| format!("  {cell} {:>8}\n", visits.get(&cell).copied().unwrap_or(0));
    Cell::legal().map(line).collect()
}

/// A random value of an answer.
pub(super) fn answer(rng: &mut Rng, word: &str) -> OnDuplicate {
    match word {
        "use_existing" => OnDuplicate::UseExisting,
        "reject" => OnDuplicate::Reject,
        "replace" => OnDuplicate::Replace,
        "latest" => OnDuplicate::Latest,
        _ => {
            let delay = Millis::new(rng.between(1, 5_000));
            let max_wait = rng
                .chance(50)
                .then(|| Millis::new(delay.as_millis() + rng.between(0, 10_000)));
            OnDuplicate::Debounce { delay, max_wait }
        }
    }
}
