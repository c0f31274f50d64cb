//! What has to hold after a kill, read off the store and held against the history.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::counters::Counter;
use semel_core::dedup::HoldKind;
use semel_core::ids::JobId;
use semel_core::job::State;
use semel_core::store::{KeyFilter, LedgerFilter, Page, Store};
use semel_core::view::{Job, KeyRow};

use super::history::{History, Track};

/// The doctor finds nothing (I1, I12, I13, I25, as the store itself sees them).
pub(super) async fn nothing_to_repair(store: &dyn Store) {
    assert_eq!(
        store.doctor(false).await.expect("the store answers"),
        [],
        "the doctor finds something after a kill"
    );
}

/// I2: every job that was answered with is there, before anything is made again.
pub(super) async fn found(store: &dyn Store, history: &History) {
    let ids: Vec<JobId> = history.touched.iter().cloned().collect();
    jobs(store, &ids).await;
}

/// Everything that the history says, of the jobs it spoke about lately or of all.
pub(super) async fn round(store: &dyn Store, history: &mut History, everything: bool) {
    let ids: Vec<JobId> = match everything {
        true => history.jobs.keys().cloned().collect(),
        false => std::mem::take(&mut history.touched).into_iter().collect(),
    };
    history.touched.clear();
    let jobs = jobs(store, &ids).await;
    for job in &jobs {
        let track = history.jobs.get_mut(&job.id).expect("asked for by the history");
        ended_once_per_life(job, track);
        kept_no_key(job);
    }
    counters(store, history).await;
    keys(store).await;
    nothing_to_repair(store).await;
    if everything {
        let keys = one_holder_per_key(&jobs, history);
        by_state(store, &jobs, keys).await;
        ledger(store, history).await;
    }
}

async fn jobs(store: &dyn Store, ids: &[JobId]) -> Vec<Job> {
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(500) {
        let jobs = store.jobs_by_id(ids).await.expect("the store answers");
        for (id, job) in ids.iter().zip(jobs) {
            found.push(job.unwrap_or_else(|| panic!("I2: {id} was answered with and is lost")));
        }
    }
    found
}

/// I8, I10: as many ends as lives, the last of them the one that was answered.
fn ended_once_per_life(job: &Job, track: &mut Track) {
    let is_ended = job.state.is_terminal();
    if is_ended {
        assert_eq!(
            track.last_end(),
            Some(job.state.word()),
            "I10: {job:?} after {track:?}"
        );
    }
    let lives = track.ends().checked_sub(u64::from(is_ended));
    let (answered, unknown) = track.retries;
    let begun = lives.filter(|begun| (answered..=answered + unknown).contains(begun));
    track.lives_begun =
        begun.unwrap_or_else(|| panic!("I10: as many ends as lives: {job:?} after {track:?}"));
    let newest = track.leases.keys().last().copied().unwrap_or(0);
    assert!(job.fence >= newest, "I7: {job:?} has a fence below {newest}");
    assert_eq!(job.replayed_as, track.replayed_as, "{job:?}");
}

/// I12: a job that has ended holds no `until_finished` key.
fn kept_no_key(job: &Job) {
    let held = job.key.as_ref().filter(|key| key.held);
    let kept = held.is_none_or(|key| !job.state.is_terminal() || key.hold.kind == HoldKind::Forever);
    assert!(kept, "I12: {job:?}");
}

/// I25: the counters equal the history.
async fn counters(store: &dyn Store, history: &History) {
    let raw = store.stats().await.expect("the store answers").raw;
    let lives: u64 = history.jobs.values().map(|track| track.lives_begun).sum();
    for counter in Counter::ALL {
        let mut expected = history.counts.get(&counter).copied().unwrap_or(0);
        if counter == Counter::Retried {
            expected += i64::try_from(lives).expect("few lives");
        }
        let slack = history.perhaps.get(&counter).copied().unwrap_or(0);
        let found = raw.get(counter);
        assert!(
            (expected..=expected + slack).contains(&found),
            "I25: {} is {found}, the history says {expected} to {}",
            counter.word(),
            expected + slack
        );
    }
}

/// I1, I13: every key that is held is held by one job, and that job exists.
async fn keys(store: &dyn Store) {
    let rows = held(store).await;
    let digests: BTreeSet<_> = rows.iter().map(|row| row.key.digest).collect();
    assert_eq!(digests.len(), rows.len(), "I1: a key has two holders");
    let holders: Vec<JobId> = rows.into_iter().map(|row| row.holder.id).collect();
    jobs(store, &holders).await;
}

async fn held(store: &dyn Store) -> Vec<KeyRow> {
    let mut page = Page::first(500);
    let mut rows = Vec::new();
    loop {
        let listing = store
            .keys(KeyFilter::default(), page)
            .await
            .expect("the store answers");
        rows.extend(listing.items);
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => return rows,
        }
    }
}

/// I1 from the outside: of the jobs that were given a key, at most one is under way, and one `forever` key made one job.
///
/// Gives the number of keys that are held.
fn one_holder_per_key(jobs: &[Job], history: &History) -> usize {
    let mut active: BTreeMap<&str, Vec<&JobId>> = BTreeMap::new();
    let mut first: BTreeMap<&str, Vec<&JobId>> = BTreeMap::new();
    for job in jobs {
        let Some((key, policy)) = &history.jobs[&job.id].key else {
            continue;
        };
        if !job.state.is_terminal() && job.state != State::Deferred {
            active.entry(key).or_default().push(&job.id);
        }
        if policy == "forever" && job.replayed_from.is_none() {
            first.entry(key).or_default().push(&job.id);
        }
    }
    for (key, ids) in active.iter().chain(&first) {
        assert!(ids.len() == 1, "I1: {key} is held by {ids:?}");
    }
    active.keys().chain(first.keys()).collect::<BTreeSet<_>>().len()
}

/// I25: jobs by state, counted one by one, and the keys they hold.
async fn by_state(store: &dyn Store, jobs: &[Job], keys: usize) {
    let mut states: BTreeMap<State, i64> = BTreeMap::new();
    jobs.iter()
        .for_each(|job| *states.entry(job.state).or_default() += 1);
    let stats = store.stats().await.expect("the store answers");
    assert_eq!(stats.jobs, states, "I25: jobs by state");
    assert_eq!(
        stats.active_keys,
        i64::try_from(keys).expect("few keys"),
        "I25: active keys"
    );
}

/// Each absorbed submission left its record.
async fn ledger(store: &dyn Store, history: &History) {
    let absorbed = [
        Counter::Duplicate,
        Counter::Replaced,
        Counter::Deferred,
        Counter::Rejected,
    ];
    let expected: i64 = absorbed
        .iter()
        .filter_map(|counter| history.counts.get(counter))
        .sum();
    let mut page = Page::first(500);
    let mut entries = 0;
    loop {
        let listing = store
            .ledger(LedgerFilter::default(), page)
            .await
            .expect("the store answers");
        entries += listing.items.len();
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, 500),
            None => break,
        }
    }
    assert_eq!(
        i64::try_from(entries).expect("fits"),
        expected,
        "the ledger has every absorbed submission"
    );
}
