//! Dead letters, grouped.

use std::collections::BTreeMap;

use semel_core::ids::Name;
use semel_core::job::Phase;
use semel_core::store::{JobFilter, Sought};
use semel_core::view::{ErrorGroup, error_group};

use crate::fail::Fail;
use crate::inspect::Look;

impl Look<'_> {
    /// Dead letters grouped by what they died of.
    pub fn dead_letter_groups(&mut self, task: Option<&Name>) -> Result<Vec<ErrorGroup>, Fail> {
        let filter = JobFilter {
            task: task.cloned(),
            dead_letters: true,
            ..JobFilter::default()
        };
        let mut groups: BTreeMap<(Name, String), ErrorGroup> = BTreeMap::new();
        let mut before = i64::MAX;
        loop {
            let (seqs, looked_to) = self.rare(Phase::Failed, &filter, before)?;
            for seq in seqs {
                self.group(seq, &filter, &mut groups)?;
            }
            match looked_to {
                Some(to) => before = to,
                None => break,
            }
        }
        let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
        groups.sort_by(|a, b| {
            b.jobs
                .cmp(&a.jobs)
                .then_with(|| (&a.task, &a.error).cmp(&(&b.task, &b.error)))
        });
        Ok(groups)
    }

    fn group(
        &mut self,
        seq: i64,
        filter: &JobFilter,
        groups: &mut BTreeMap<(Name, String), ErrorGroup>,
    ) -> Result<(), Fail> {
        let Some(job) = self.job(seq)?.filter(|job| filter.finds(&Sought::of(job, None))) else {
            return Ok(());
        };
        let message = job.error.as_ref().map_or("", |error| error.message.as_str());
        let error = error_group(message);
        let at = job.finished_at.unwrap_or(job.enqueued_at);
        let group = groups
            .entry((job.task.clone(), error.clone()))
            .or_insert_with(|| ErrorGroup {
                task: job.task.clone(),
                error,
                jobs: 0,
                newest: job.id.clone(),
                newest_at: at,
            });
        group.jobs += 1;
        if at > group.newest_at {
            group.newest = job.id;
            group.newest_at = at;
        }
        Ok(())
    }
}
