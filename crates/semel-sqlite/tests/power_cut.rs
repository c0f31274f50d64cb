//! The store under power cuts: with FULL no answer is ever lost, with NORMAL some are, so the test would notice.

#[path = "power_cut/campaign.rs"]
mod campaign;
mod stage;

use semel_powercut::Survive;
use semel_sqlite::Synchronous;

const SUBMISSIONS: usize = 240;
const CUTS: usize = 150;

#[test]
fn a_power_cut_loses_no_answer() {
    let recording = campaign::record("store-full", 1, Synchronous::Full, SUBMISSIONS);
    let synced = recording.database_syncs();
    eprintln!(
        "FULL: {} events, {:?}, {} checkpoints, {synced} syncs of the database file",
        recording.events(),
        recording.counts,
        recording.checkpoints
    );
    assert!(synced >= 5, "hardly any checkpoint came between the commits");
    for survive in [Survive::None, Survive::Random] {
        let tally = recording.cut(CUTS, 1, survive);
        eprintln!("FULL, {survive:?}: {tally}");
        assert!(tally.unsound.is_empty(), "{:#?}", tally.unsound);
        assert_eq!(tally.lost, 0, "{tally}");
        assert!(tally.answers > CUTS * SUBMISSIONS / 4, "the cuts came too early to lose anything");
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
    for survive in [Survive::None, Survive::Random] {
        let tally = recording.cut(CUTS / 3, 2, survive);
        eprintln!("NORMAL, {survive:?}: {tally}");
        assert!(tally.unsound.is_empty(), "{:#?}", tally.unsound);
        assert!(tally.lost > 0, "the test would not notice a loss: {tally}");
    }
}
