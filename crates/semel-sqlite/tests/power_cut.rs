//! The store under power cuts: with FULL no answer is ever lost, with NORMAL some are, so the test would notice.

#[path = "power_cut/campaign.rs"]
mod campaign;
mod stage;

use semel_powercut::Survive;
use semel_sqlite::Synchronous;

const SUBMISSIONS: usize = 320;
const CUTS: usize = 150;

#[test]
fn a_power_cut_loses_no_answer() {
    let recording = campaign::record("store-full", 1, Synchronous::Full, SUBMISSIONS);
    let (synced, restarted) = recording.turns();
    eprintln!(
        "FULL: {} events, {:?}, {} checkpoints, {synced} syncs of the database file, {restarted} beginnings of the log",
        recording.events(),
        recording.counts,
        recording.checkpoints
    );
    assert!(
        synced >= 5 && restarted >= 3,
        "hardly any checkpoint came between the commits"
    );
    for (seed, survive) in [(1, Survive::None), (2, Survive::Random)] {
        let tally = recording.cut(CUTS, seed, survive);
        eprintln!("FULL, {survive:?}: {tally}");
        assert!(tally.unsound.is_empty(), "{:#?}", tally.unsound);
        assert_eq!(tally.lost, 0, "{tally}");
        assert!(
            tally.answers > CUTS * SUBMISSIONS / 4,
            "the cuts came too early to lose anything"
        );
    }
}

#[test]
fn without_a_sync_per_commit_a_power_cut_loses_answers_but_nothing_breaks() {
    let recording = campaign::record("store-normal", 2, Synchronous::Normal, SUBMISSIONS);
    eprintln!(
        "NORMAL: {} events, {:?}, {} checkpoints",
        recording.events(),
        recording.counts,
        recording.checkpoints
    );
    for (seed, survive) in [(3, Survive::None), (4, Survive::Random)] {
        let tally = recording.cut(CUTS / 3, seed, survive);
        eprintln!("NORMAL, {survive:?}: {tally}");
        assert!(tally.unsound.is_empty(), "{:#?}", tally.unsound);
        assert!(tally.lost > 0, "the test would not notice a loss: {tally}");
    }
}
