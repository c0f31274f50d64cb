//! What a filter finds, and how dead letters are grouped: the same for every store.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::ids::{Digest, JobId, Name};
use crate::job::State;
use crate::store::{JobFilter, KeyFilter, LedgerFilter};
use crate::time::Timestamp;
use crate::view::{ErrorGroup, Job, KeyRow, LedgerEntry, error_group};

/// What a filter asks of a job.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'j> {
    /// How it fares now.
    pub state: State,
    /// Where it waits.
    pub queue: &'j Name,
    /// What it is.
    pub task: &'j Name,
    /// The key it has taken, or waits for.
    pub key: Option<Digest>,
    /// What it failed of last.
    pub error: Option<&'j str>,
    /// When it was admitted.
    pub enqueued_at: Timestamp,
    /// It is kept for its key alone.
    pub stub: bool,
    /// It failed and was not replayed.
    pub dead_letter: bool,
}

impl<'j> Sought<'j> {
    /// Of a job as it is shown; `key` also where it has yet to take it.
    pub fn of(job: &'j Job, key: Option<Digest>) -> Self {
        Sought {
            state: job.state,
            queue: &job.queue,
            task: &job.task,
            key,
            error: job.error.as_ref().map(|error| error.message.as_str()),
            enqueued_at: job.enqueued_at,
            stub: job.stub,
            dead_letter: job.state == State::Failed && job.replayed_as.is_none() && !job.stub,
        }
    }
}

impl JobFilter {
    /// Whether a job is among those asked for. A stub never is.
    pub fn finds(&self, job: &Sought<'_>) -> bool {
        let JobFilter {
            state,
            queue,
            task,
            key,
            error,
            since,
            until,
            dead_letters,
        } = self;
        !job.stub
            && state.is_none_or(|state| state == job.state)
            && queue.as_ref().is_none_or(|queue| queue == job.queue)
            && task.as_ref().is_none_or(|task| task == job.task)
            && key.is_none_or(|key| Some(key) == job.key)
            && error
                .as_ref()
                .is_none_or(|text| job.error.is_some_and(|message| message.contains(text.as_str())))
            && since.is_none_or(|since| job.enqueued_at >= since)
            && until.is_none_or(|until| job.enqueued_at < until)
            && (!dead_letters || job.dead_letter)
    }
}

impl KeyFilter {
    /// Whether a key is among those asked for.
    pub fn finds(&self, row: &KeyRow) -> bool {
        let KeyFilter {
            text,
            scope,
            task,
            job,
            also_free,
        } = self;
        let key_text = row.key.text.as_deref();
        (*also_free || row.key.held)
            && text
                .as_ref()
                .is_none_or(|text| key_text.is_some_and(|key| key.contains(text.as_str())))
            && scope.as_ref().is_none_or(|scope| *scope == row.key.scope)
            && task.as_ref().is_none_or(|task| *task == row.holder.task)
            && job.as_ref().is_none_or(|id| *id == row.holder.id)
    }
}

impl LedgerFilter {
    /// Whether an absorbed submission is among those asked for.
    pub fn finds(&self, entry: &LedgerEntry) -> bool {
        let LedgerFilter { digest, holder } = self;
        digest.is_none_or(|digest| digest == entry.digest)
            && holder.as_ref().is_none_or(|holder| *holder == entry.holder)
    }
}

/// Dead letters by task and cause.
///
/// `Place` is where a letter stands in the order of arrival: of letters that died in one moment the last is named.
#[derive(Debug)]
pub struct ErrorGroups<Place> {
    groups: BTreeMap<(Name, String), (ErrorGroup, Place)>,
}

impl<Place> Default for ErrorGroups<Place> {
    fn default() -> Self {
        ErrorGroups {
            groups: BTreeMap::new(),
        }
    }
}

impl<Place: Ord + Copy> ErrorGroups<Place> {
    /// Adds a letter.
    pub fn add(&mut self, place: Place, id: &JobId, task: &Name, error: Option<&str>, died_at: Timestamp) {
        let error = error_group(error.unwrap_or_default());
        let (group, newest) = self
            .groups
            .entry((task.clone(), error.clone()))
            .or_insert_with(|| {
                let group = ErrorGroup {
                    task: task.clone(),
                    error,
                    jobs: 0,
                    newest: id.clone(),
                    newest_at: died_at,
                };
                (group, place)
            });
        group.jobs += 1;
        if (died_at, place) > (group.newest_at, *newest) {
            group.newest = id.clone();
            group.newest_at = died_at;
            *newest = place;
        }
    }

    /// The groups, the largest first; equal ones by task and cause.
    pub fn largest_first(self) -> Vec<ErrorGroup> {
        let mut groups: Vec<ErrorGroup> = self.groups.into_values().map(|(group, _)| group).collect();
        groups.sort_by_key(|group| Reverse(group.jobs));
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn letters_of_one_cause_are_one_group_that_names_the_last_to_die() {
        let mut groups = ErrorGroups::default();
        let mail = name("mail");
        let at = Timestamp::from_millis;
        let ids: Vec<JobId> = ["a", "b", "c", "d"]
            .map(|id| JobId::new(id).expect("an id"))
            .to_vec();
        groups.add(1, &ids[0], &mail, Some("refused: code 7"), at(10));
        groups.add(3, &ids[2], &mail, Some("refused: code 12"), at(20));
        groups.add(2, &ids[1], &mail, Some("refused: code 9"), at(20));
        groups.add(4, &ids[3], &name("sync"), None, at(5));
        let shown: Vec<(i64, String, JobId)> = groups
            .largest_first()
            .into_iter()
            .map(|group| (group.jobs, group.error, group.newest))
            .collect();
        assert_eq!(
            shown,
            [
                (3, "refused: code #".to_owned(), ids[2].clone()),
                (1, String::new(), ids[3].clone()),
            ]
        );
    }
}
