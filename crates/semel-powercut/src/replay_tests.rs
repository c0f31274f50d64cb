//! The disk model on hand-written logs.

use std::collections::{BTreeMap, BTreeSet};

use crate::log::{Entry, Event, Log, Survive};

fn log(base: &[(&str, &[u8])], events: Vec<Event>) -> Log {
    let base = base
        .iter()
        .map(|(name, bytes)| (name.to_string(), bytes.to_vec()))
        .collect();
    let number = |(seq, event)| Entry {
        seq: seq as u64,
        event,
    };
    Log {
        base,
        entries: events.into_iter().enumerate().map(number).collect(),
    }
}

fn create(file: &str) -> Event {
    Event::Create { file: file.into() }
}

fn write(file: &str, offset: u64, data: Vec<u8>) -> Event {
    Event::Write {
        file: file.into(),
        offset,
        data,
    }
}

fn sync(file: &str, covers: u64) -> Event {
    Event::Sync {
        file: file.into(),
        covers,
    }
}

fn delete(file: &str, dir_synced: bool) -> Event {
    Event::Delete {
        file: file.into(),
        dir_synced,
    }
}

/// Every state of file `a` that 2000 seeds produce at the end of the log.
fn outcomes(log: &Log) -> BTreeSet<Option<Vec<u8>>> {
    let image = |seed| log.image(usize::MAX, seed, Survive::Random);
    (0..2000)
        .map(|seed| image(seed).get("a").map(<[u8]>::to_vec))
        .collect()
}

#[test]
fn a_sync_makes_earlier_writes_certain_and_no_others() {
    let log = log(
        &[("a", &[0; 1024])],
        vec![
            write("a", 0, vec![1; 512]),
            sync("b", 1),
            sync("a", 1),
            write("a", 512, vec![2; 512]),
        ],
    );
    let at = |cut| log.image(cut, 0, Survive::None).get("a").map(<[u8]>::to_vec);
    assert_eq!(at(2), Some(vec![0; 1024]), "the sync of another file");
    assert_eq!(at(3), Some([[1; 512], [0; 512]].concat()));
    assert_eq!(at(4), at(3));
    let all = log.image(4, 0, Survive::All);
    assert_eq!(all.get("a"), Some([[1; 512], [2; 512]].concat().as_slice()));
}

#[test]
fn a_write_during_a_sync_is_not_covered_by_it() {
    let log = log(&[("a", &[0; 4])], vec![write("a", 0, vec![1; 4]), sync("a", 0)]);
    assert_eq!(log.image(2, 0, Survive::None).get("a"), Some([0; 4].as_slice()));
}

#[test]
fn sectors_survive_independently_and_whole() {
    let log = log(&[("a", &[0; 1024])], vec![write("a", 0, vec![1; 1024])]);
    let expected = [[0, 0], [0, 1], [1, 0], [1, 1]];
    let expected: BTreeSet<_> = expected
        .iter()
        .map(|[x, y]| Some([[*x; 512], [*y; 512]].concat()))
        .collect();
    assert_eq!(outcomes(&log), expected);
}

#[test]
fn a_sector_is_never_ahead_of_itself() {
    let log = log(
        &[("a", &[0; 2])],
        vec![write("a", 0, vec![1]), write("a", 1, vec![2])],
    );
    let expected = [vec![0, 0], vec![1, 0], vec![1, 2]];
    assert_eq!(outcomes(&log), expected.into_iter().map(Some).collect());
}

#[test]
fn a_file_that_grows_may_have_its_length_without_its_data() {
    let log = log(&[("a", &[7])], vec![write("a", 1, vec![8; 2])]);
    let expected = [vec![7], vec![7, 0, 0], vec![7, 8, 8]];
    assert_eq!(outcomes(&log), expected.into_iter().map(Some).collect());
}

#[test]
fn a_truncation_is_at_risk_until_synced() {
    let cut = Event::Truncate {
        file: "a".into(),
        size: 1,
    };
    let base: &[(&str, &[u8])] = &[("a", &[7, 7])];
    let expected = [vec![7], vec![7, 7]];
    assert_eq!(
        outcomes(&log(base, vec![cut.clone()])),
        expected.into_iter().map(Some).collect()
    );
    let synced = outcomes(&log(base, vec![cut, sync("a", 1)]));
    assert_eq!(synced, BTreeSet::from([Some(vec![7])]));
}

#[test]
fn writes_to_a_replaced_file_never_land_in_the_old_one() {
    let log = log(
        &[("a", &[1, 1])],
        vec![delete("a", false), create("a"), write("a", 1, vec![2])],
    );
    let expected = [
        None,
        Some(vec![1, 1]),
        Some(vec![]),
        Some(vec![0, 0]),
        Some(vec![0, 2]),
    ];
    assert_eq!(outcomes(&log), expected.into_iter().collect());
    assert_eq!(log.image(3, 0, Survive::None).get("a"), Some([1, 1].as_slice()));
}

#[test]
fn names_are_certain_once_their_directory_is_synced() {
    let base: &[(&str, &[u8])] = &[("a", &[1])];
    let gone = BTreeSet::from([None]);
    assert_eq!(outcomes(&log(base, vec![delete("a", true)])), gone);
    let by_new_file = vec![delete("a", false), create("b"), sync("b", 2)];
    assert_eq!(outcomes(&log(base, by_new_file)), gone);
    let by_old_file = vec![delete("a", false), sync("b", 1)];
    assert_eq!(outcomes(&log(base, by_old_file)).len(), 2);
}

#[test]
fn a_directory_sync_does_not_save_the_content() {
    let events = vec![create("a"), write("a", 0, vec![1]), create("b"), sync("b", 3)];
    let image = log(&[], events).image(4, 0, Survive::None);
    let expected = BTreeMap::from([("a", [].as_slice()), ("b", [].as_slice())]);
    assert_eq!(image.files().collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn marks_are_in_order_with_the_events() {
    let log = log(&[], vec![Event::Mark(7), create("a"), Event::Mark(9)]);
    assert_eq!(log.marks_before(0), Vec::<u64>::new());
    assert_eq!(log.marks_before(2), vec![7]);
    assert_eq!(log.marks_before(99), vec![7, 9]);
}
