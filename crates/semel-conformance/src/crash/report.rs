//! The figures that show what the kills were worth.

use std::collections::BTreeMap;
use std::fmt;

use semel_core::counters::Counter;

use super::history::History;
use super::log::Call;

/// The figures of a crash campaign.
#[derive(Default)]
pub(crate) struct Report {
    kills: u64,
    /// Kills that were meant for a store that is being opened.
    early: u64,
    /// Kills under load that interrupted nothing.
    idle: u64,
    /// Calls on their way at the moment of the kill.
    in_flight: BTreeMap<usize, u64>,
    /// Unknown calls, by what they were.
    unknown: BTreeMap<String, u64>,
    /// Unknown submissions of which a job was there, and all of them.
    submissions: (u64, u64),
    calls: u64,
    jobs: usize,
    /// What the history counted, held equal to the store's counters.
    counted: BTreeMap<&'static str, i64>,
    /// What unknown calls may have counted beyond that.
    perhaps: BTreeMap<&'static str, i64>,
}

impl Report {
    pub(super) fn killed(&mut self, calls: &[Call], settled: bool) {
        self.kills += 1;
        self.early += u64::from(!settled);
        let unknown: Vec<&Call> = calls.iter().filter(|call| call.answer.is_none()).collect();
        self.idle += u64::from(settled && unknown.is_empty());
        *self.in_flight.entry(unknown.len()).or_default() += 1;
        for call in unknown {
            *self.unknown.entry(call.verb().to_owned()).or_default() += 1;
        }
    }

    pub(super) fn unknown_submission(&mut self, is_there: bool) {
        self.submissions.0 += u64::from(is_there);
        self.submissions.1 += 1;
    }

    pub(super) fn finished(&mut self, history: &History) {
        self.calls = history.calls;
        self.jobs = history.jobs.len();
        let by_word =
            |counts: &BTreeMap<Counter, i64>| counts.iter().map(|(of, n)| (of.word(), *n)).collect();
        self.counted = by_word(&history.counts);
        self.perhaps = by_word(&history.perhaps);
    }

    /// How many of a hundred kills under load interrupted a call. Those meant for a store that is being opened may
    /// come too early for that, on a busy machine more of them than on a quiet one.
    pub(crate) fn percent_interrupting(&self) -> u64 {
        let under_load = self.kills - self.early;
        (under_load - self.idle) * 100 / under_load.max(1)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            kills,
            early,
            calls,
            jobs,
            submissions: (there, all),
            ..
        } = self;
        let percent = self.percent_interrupting();
        writeln!(
            f,
            "{kills} kills under load, {calls} calls, {jobs} jobs: 0 lost, 0 orphan keys, counters equal the history"
        )?;
        writeln!(
            f,
            "  {percent} % interrupted a call, apart from {early} meant for a store that is being opened"
        )?;
        writeln!(f, "  calls on their way when killed:")?;
        for (calls, kills) in &self.in_flight {
            writeln!(f, "    {calls:>3}  {kills:>6} kills")?;
        }
        writeln!(f, "  unknown calls: {:?}", self.unknown)?;
        writeln!(
            f,
            "  counted: {:?}, and by unknown calls at most {:?}",
            self.counted, self.perhaps
        )?;
        write!(f, "  of {all} unknown submissions {there} had made their job")
    }
}
