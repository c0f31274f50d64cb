//! The same-key storm: a thousand submissions of one key at once make one job (contract 2.8).

use std::collections::BTreeMap;
use std::fmt;

use semel_core::counters::Counter;
use semel_core::store::{JobFilter, LedgerFilter, Page, Store};

use super::order::{Answer, KeyHold, Order};
use super::team::{Arena, Team};
use crate::kit::World;

/// Processes in a storm.
pub(crate) const PROCESSES: usize = 8;
/// Submissions of one key in a round.
const SUBMISSIONS: usize = 1_000;
/// How many of a process's submissions travel in one batch; the others are calls of their own.
const BATCH: usize = 32;

/// What a storm was made of.
pub(crate) struct Storm {
    rounds: u64,
    processes: usize,
    /// How far into its round the accepted answer was found, as members are listed: shows that no member always wins.
    winners: BTreeMap<usize, u64>,
}

impl fmt::Display for Storm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Storm {
            rounds,
            processes,
            winners,
        } = self;
        let who = if *processes > 0 {
            format!("{processes} processes")
        } else {
            "one process".to_owned()
        };
        write!(
            f,
            "{rounds} rounds of {rounds}: 1 accepted, {} named it, from {who}",
            SUBMISSIONS - 1
        )?;
        write!(
            f,
            "; rounds won per member: {:?}",
            winners.values().collect::<Vec<_>>()
        )
    }
}

/// Plays so many rounds. Panics where a key made more, or less, than one job.
pub(crate) fn storm(world: &World, rounds: u64) -> Storm {
    let arena = Arena::new(world);
    let mut team = Team::new(&arena, PROCESSES);
    let mut winners = BTreeMap::new();
    for round in 0..rounds {
        let key = format!("storm-{round}");
        let answers = team.play((0..PROCESSES).map(|member| orders(member, &key)).collect());
        let winner = judge(&answers);
        *winners.entry(winner).or_default() += 1;
    }
    arena.block(look(&*arena.store, rounds));
    Storm {
        rounds,
        processes: if team.has_processes() { PROCESSES } else { 0 },
        winners,
    }
}

fn orders(member: usize, key: &str) -> Vec<Order> {
    let order = |times| Order::Submit {
        item: member,
        key: key.to_owned(),
        hold: KeyHold::UntilFinished,
        times,
    };
    let single = SUBMISSIONS / PROCESSES - BATCH;
    std::iter::repeat_n(order(1), single / 2)
        .chain([order(BATCH)])
        .chain(std::iter::repeat_n(order(1), single - single / 2))
        .collect()
}

/// Exactly one accepted, all others name it; the member that was accepted.
fn judge(answers: &[Answer]) -> usize {
    assert_eq!(answers.len(), SUBMISSIONS);
    let accepted: Vec<&Answer> = answers
        .iter()
        .filter(|answer| answer.word == "accepted")
        .collect();
    let [winner] = accepted[..] else {
        panic!("{} accepted: {accepted:?}", accepted.len())
    };
    let strangers: Vec<&Answer> = answers
        .iter()
        .filter(|answer| answer.id != winner.id || !matches!(answer.word.as_str(), "accepted" | "duplicate"))
        .collect();
    assert!(
        strangers.is_empty(),
        "answers that do not name {}: {strangers:?}",
        winner.id
    );
    winner.item
}

/// What the answers said is what the store shows.
async fn look(store: &dyn Store, rounds: u64) {
    let rounds = i64::try_from(rounds).expect("few rounds");
    let others = i64::try_from(SUBMISSIONS - 1).expect("small");
    let stats = store.stats().await.expect("the store answers");
    assert_eq!(stats.raw.get(Counter::Accepted), rounds);
    assert_eq!(stats.raw.get(Counter::Duplicate), rounds * others);
    assert_eq!(stats.active_keys, rounds);
    let jobs = store
        .jobs(JobFilter::default(), Page::first(500))
        .await
        .expect("the store answers");
    for job in &jobs.items {
        let digest = job.key.as_ref().expect("submitted with a key").digest;
        let row = store.key(digest).await.expect("the store answers").expect("held");
        assert_eq!((row.holder.id, row.absorbed), (job.id.clone(), others));
    }
    let filter = LedgerFilter::default();
    let ledger = store
        .ledger(filter, Page::first(500))
        .await
        .expect("the store answers");
    assert!(
        rounds == 0 || ledger.items.len() == 500,
        "absorbed submissions are in the ledger"
    );
    assert_eq!(store.doctor(false).await.expect("the store answers"), []);
}
