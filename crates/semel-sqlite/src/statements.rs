//! Every statement of the store, by name. The text is in `sql/`, one file each; the first line says what it is for.

use rusqlite::{CachedStatement, Connection};

use crate::gathered::{self, Gathered};

macro_rules! statements {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// A statement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Sql { $($name),* }

        const TEXTS: &[&str] = &[$(include_str!(concat!("sql/", $file, ".sql"))),*];

        #[cfg(test)]
        const NAMES: &[&str] = &[$($file),*];
    };
}

statements! {
    TokenFind = "token_find",
    TokenLast = "token_last",
    TokenMove = "token_move",
    TokenDelete = "token_delete",
    TokenRunInsert = "token_run_insert",
    TokenRunAfter = "token_run_after",
    TokenRunFind = "token_run_find",
    TokenRunDrop = "token_run_drop",
    JobInsert = "job_insert",
    ReadyDelete = "ready_delete",
    KeyDelete = "key_delete",
    KeyOwners = "key_owners",
    KeyAfter = "key_after",
    KeyLogFirst = "key_log_first",
    KeyLogAfter = "key_log_after",
    KeyLogInsert = "key_log_insert",
    KeyLogDrop = "key_log_drop",
    ClaimFind = "claim_find",
    FollowAny = "follow_any",
    HolderFind = "holder_find",
    JobReplace = "job_replace",
    JobInput = "job_input",
    FollowInsert = "follow_insert",
    FollowerFind = "follower_find",
    FollowedFind = "followed_find",
    FollowDelete = "follow_delete",
    FollowForsake = "follow_forsake",
    FollowCut = "follow_cut",
    LifeFind = "life_find",
    JobFind = "job_find",
    JobId = "job_id",
    JobKeyed = "job_keyed",
    ReadyPriorities = "ready_priorities",
    ReadyDue = "ready_due",
    ReadyTake = "ready_take",
    ReadyFirst = "ready_first",
    ReadyOldest = "ready_oldest",
    ReadyLater = "ready_later",
    LeaseInsert = "lease_insert",
    LeaseByToken = "lease_by_token",
    LeaseSoonest = "lease_soonest",
    LeaseDue = "lease_due",
    LeasePutOff = "lease_put_off",
    LeaseFind = "lease_find",
    LeasePut = "lease_put",
    LeaseForgettable = "lease_forgettable",
    LeaseRemember = "lease_remember",
    LeaseDelete = "lease_delete",
    LeaseAll = "lease_all",
    FenceHighest = "fence_highest",
    WorkerFind = "worker_find",
    WorkerInsert = "worker_insert",
    WorkerName = "worker_name",
    OutputPut = "output_put",
    OutputFind = "output_find",
    OutputDelete = "output_delete",
    ProgressPut = "progress_put",
    ProgressFind = "progress_find",
    ProgressDelete = "progress_delete",
    AttemptLast = "attempt_last",
    AttemptInsert = "attempt_insert",
    AttemptError = "attempt_error",
    AttemptList = "attempt_list",
    AttemptStrip = "attempt_strip",
    AttemptDelete = "attempt_delete",
    EndedLast = "ended_last",
    EndedInsert = "ended_insert",
    EndedFirst = "ended_first",
    EndedDelete = "ended_delete",
    EndedShrink = "ended_shrink",
    LaneList = "lane_list",
    LaneInsert = "lane_insert",
    LaneCount = "lane_count",
    LaneRemove = "lane_remove",
    FloorFind = "floor_find",
    FloorRaise = "floor_raise",
    JobLast = "job_last",
    JobNewborn = "job_newborn",
    JobNewest = "job_newest",
    ReplayInsert = "replay_insert",
    ReplayFind = "replay_find",
    ReplayDelete = "replay_delete",
    JobCopy = "job_copy",
    JobStrip = "job_strip",
    StubPut = "stub_put",
    StubFind = "stub_find",
    StubDue = "stub_due",
    StubDelete = "stub_delete",
    StubPassed = "stub_passed",
    JobDelete = "job_delete",
    LifeDelete = "life_delete",
    OriginList = "origin_list",
    OriginJobs = "origin_jobs",
    DeferredAll = "deferred_all",
    StepFind = "step_find",
    StepPut = "step_put",
    StepList = "step_list",
    StepBegun = "step_begun",
    StepDelete = "step_delete",
    GuardFind = "guard_find",
    GuardPut = "guard_put",
    GuardDelete = "guard_delete",
    GuardPrune = "guard_prune",
    GuardCount = "guard_count",
    GuardCounts = "guard_counts",
    SettingList = "setting_list",
    SettingPut = "setting_put",
    SettingDelete = "setting_delete",
    DocumentFind = "document_find",
    DocumentPut = "document_put",
    DocumentDelete = "document_delete",
    DocumentList = "document_list",
    DocumentPrune = "document_prune",
    FeedLast = "feed_last",
    FeedInsert = "feed_insert",
    FeedList = "feed_list",
    FeedDelete = "feed_delete",
    FeedTrim = "feed_trim",
    LedgerInsert = "ledger_insert",
    LedgerFirst = "ledger_first",
    LedgerAt = "ledger_at",
    LedgerAfter = "ledger_after",
    LedgerKeyInsert = "ledger_key_insert",
    LedgerKeyDelete = "ledger_key_delete",
    LedgerKeyList = "ledger_key_list",
    LedgerList = "ledger_list",
    LedgerDelete = "ledger_delete",
    LedgerTotalAdd = "ledger_total_add",
    LedgerTotalFind = "ledger_total_find",
    LedgerTotalDelete = "ledger_total_delete",
    SnapshotFind = "snapshot_find",
    SnapshotInsert = "snapshot_insert",
    SnapshotList = "snapshot_list",
    SnapshotThin = "snapshot_thin",
    BaselinePut = "baseline_put",
    BaselineList = "baseline_list",
    ResetPut = "reset_put",
    ResetFind = "reset_find",
    RemovedJobs = "removed_jobs",
    LaneRemovedAny = "lane_removed_any",
    LaneSwept = "lane_swept",
    LifeScan = "life_scan",
    KeyScan = "key_scan",
    LedgerKeyCount = "ledger_key_count",
    RareScan = "rare_scan",
    RareInsert = "rare_insert",
    RareDelete = "rare_delete",
    HeldCount = "held_count",
}

impl Sql {
    /// Which gathered rows have to be written before this statement runs. When in doubt: all.
    fn needs(self) -> u8 {
        match self {
            Sql::KeyLogInsert
            | Sql::KeyLogDrop
            | Sql::TokenRunInsert
            | Sql::TokenRunAfter
            | Sql::TokenRunFind
            | Sql::TokenRunDrop
            | Sql::LedgerInsert
            | Sql::LedgerFirst
            | Sql::LedgerAt
            | Sql::LedgerAfter
            | Sql::FloorFind
            | Sql::FloorRaise
            | Sql::LaneInsert
            | Sql::LaneCount
            | Sql::LeaseInsert
            | Sql::LeaseByToken
            | Sql::LeaseSoonest
            | Sql::WorkerFind
            | Sql::WorkerInsert
            | Sql::JobInsert
            | Sql::OutputPut
            | Sql::AttemptLast
            | Sql::AttemptInsert
            | Sql::AttemptError
            | Sql::EndedInsert
            | Sql::FollowerFind
            | Sql::RareInsert
            | Sql::RareDelete
            | Sql::ProgressPut
            | Sql::ProgressFind => 0,
            Sql::JobFind | Sql::JobNewborn | Sql::JobInput | Sql::JobKeyed | Sql::JobId => gathered::JOBS,
            Sql::LifeFind => gathered::LIVES,
            Sql::HolderFind | Sql::ClaimFind => gathered::JOBS | gathered::LIVES,
            Sql::ReadyPriorities | Sql::ReadyDue | Sql::ReadyTake | Sql::ReadyDelete => gathered::PLACES,
            Sql::TokenFind => gathered::TOKENS,
            Sql::KeyOwners | Sql::KeyAfter | Sql::KeyDelete => gathered::KEYS,
            _ => gathered::ALL,
        }
    }
}

/// The statements of one transaction, each prepared when first used and kept until the end, and the rows it has
/// gathered.
pub struct Statements<'c> {
    connection: &'c Connection,
    prepared: Vec<Option<CachedStatement<'c>>>,
    gathered: Gathered<'c>,
}

impl<'c> Statements<'c> {
    /// None prepared yet.
    pub fn new(connection: &'c Connection) -> Self {
        Statements {
            connection,
            prepared: (0..TEXTS.len()).map(|_| None).collect(),
            gathered: Gathered::default(),
        }
    }

    /// The connection they belong to.
    pub fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// A statement, ready to be run: it misses nothing that was gathered.
    pub fn get(&mut self, sql: Sql) -> rusqlite::Result<&mut CachedStatement<'c>> {
        if self.gathered.kinds() != 0 {
            self.gathered.write(self.connection, sql.needs())?;
        }
        let slot = &mut self.prepared[sql as usize];
        if slot.is_none() {
            *slot = Some(self.connection.prepare_cached(TEXTS[sql as usize])?);
        }
        Ok(slot.as_mut().expect("prepared two lines above"))
    }

    /// Gathers a row, to be written with others.
    pub fn gather(&mut self, gather: impl FnOnce(&mut Gathered<'c>)) -> rusqlite::Result<()> {
        gather(&mut self.gathered);
        match self.gathered.full() {
            0 => Ok(()),
            full => self.gathered.write(self.connection, full),
        }
    }

    /// Writes what was gathered.
    pub fn write_gathered(&mut self) -> rusqlite::Result<()> {
        self.gathered.write(self.connection, gathered::ALL)
    }
}

/// How many statements there are: what a connection keeps prepared.
pub const COUNT: usize = TEXTS.len() + gathered::COUNT;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_prepares_and_says_what_it_is_for() {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch(include_str!("schema/002.sql"))
            .expect("the schema");
        for (text, name) in TEXTS.iter().zip(NAMES) {
            connection
                .prepare(text)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                text.starts_with("-- "),
                "{name} has no first line that says what it is for"
            );
        }
    }
}
