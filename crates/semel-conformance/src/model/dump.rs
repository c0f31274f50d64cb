//! Everything that can be read, compared.

use std::collections::BTreeMap;
use std::fmt::Debug;

use semel_core::error::StoreError;
use semel_core::ids::{Digest, JobId};
use semel_core::job::State;
use semel_core::store::{Finding, JobFilter, Page, StepFilter, Store, UpkeepRequest, log_feed};
use semel_core::time::{Millis, Timestamp};
use semel_core::view::{Job, Listing};

use super::pair::{Agreed, Both, Run, Side, same, same_list};
use super::work::plain_job;
use crate::rng::Rng;

impl Run<'_> {
    /// Compares everything that can be read; what takes a call per job, of a few jobs unless asked to look `close`.
    ///
    /// Draws nothing from the run's own generator and changes nothing that the generator of operations
    /// looks at, so that looking more often leaves the run the same.
    pub(super) async fn dump(&mut self, close: bool) -> Agreed {
        self.report.dumps += 1;
        let mut rng = Rng::new(self.seed ^ self.report.transitions.rotate_left(32));
        self.settle_counters().await?;
        let mut jobs = self.same_jobs().await?;
        self.same_steps(&jobs, &mut rng).await?;
        self.same_stats().await?;
        self.same_keys(&mut rng).await?;
        self.same_ledger(&mut rng).await?;
        self.same_settings().await?;
        self.same_lists(&jobs, &mut rng).await?;
        rng.shuffle(&mut jobs);
        jobs.truncate(if close { usize::MAX } else { SAMPLE });
        self.same_details(&jobs).await?;
        self.read_documents().await?;
        if close || rng.chance(30) {
            self.same_history().await?;
            self.nothing_to_repair().await?;
        }
        Ok(())
    }

    /// A store whose counters lag says so, and has them right after upkeep.
    async fn settle_counters(&mut self) -> Agreed {
        if self.capabilities.counters_at_once {
            return Ok(());
        }
        self.look("upkeep", async |store, _| {
            store.upkeep(UpkeepRequest::default()).await
        })
        .await
        .map(|_| ())
    }

    async fn same_jobs(&mut self) -> Agreed<Vec<Job>> {
        let mut found = Vec::new();
        for ids in self.known.jobs.chunks(500) {
            let Some(jobs) = self
                .look("jobs_by_id", async |store, _| store.jobs_by_id(ids).await)
                .await?
            else {
                return Err("jobs_by_id is refused".to_owned());
            };
            let raw = jobs.clone();
            let fences = &self.known.fences;
            let plain = |job: Option<Job>, side| job.map(|job| plain_job(job, fences, side));
            let jobs =
                jobs.map(|list, side| list.into_iter().map(|job| plain(job, side)).collect::<Vec<_>>());
            same_list("jobs_by_id", &jobs)?;
            same_generations(&raw)?;
            found.extend(jobs.reference.into_iter().flatten());
        }
        Ok(found)
    }

    async fn same_stats(&self) -> Agreed {
        let stats = self.look("stats", async |store, _| store.stats().await).await?;
        let Some(mut stats) = stats else { return Ok(()) };
        if stats.store.keys_by_hold.is_empty() {
            stats.reference.keys_by_hold.clear();
        }
        // Sizes differ, and so does when a store notices that a key it kept a job for has been let go.
        for side in [&mut stats.store, &mut stats.reference] {
            (side.storage_bytes, side.storage_limit, side.expired_keys) = (0, None, 0);
        }
        same_list("stats: lanes", &stats.clone().map(|stats, _| stats.lanes))?;
        same("stats", &stats)
    }

    async fn same_settings(&self) -> Agreed {
        let settings = self
            .look("settings", async |store, _| store.settings().await)
            .await?;
        settings.map_or(Ok(()), |settings| same_list("settings", &settings))
    }

    async fn same_steps(&self, jobs: &[Job], rng: &mut Rng) -> Agreed {
        let mut filters = vec![StepFilter::InDoubt];
        filters.extend(rng.maybe(jobs).map(|job| StepFilter::Origin(job.origin.clone())));
        for filter in filters {
            let steps = self
                .look("list_steps", async |store, _| {
                    store.list_steps(filter.clone()).await
                })
                .await?;
            // Steps begun in the same millisecond have no order.
            let sorted = steps.map(|steps| {
                steps.map(|mut list, _| {
                    list.sort_by(|a, b| {
                        (a.begun_at, &a.origin, &a.name).cmp(&(b.begun_at, &b.origin, &b.name))
                    });
                    list
                })
            });
            sorted.map_or(Ok(()), |steps| same_list("list_steps", &steps))?;
        }
        Ok(())
    }

    async fn same_lists(&self, jobs: &[Job], rng: &mut Rng) -> Agreed {
        let limit = any_limit(rng);
        for filter in [JobFilter::default(), self.any_filter(jobs, rng)] {
            let call = async |store: &dyn Store, _| {
                all(limit, async |page| store.jobs(filter.clone(), page).await).await
            };
            let Some(listed) = self.look("jobs", call).await? else {
                continue;
            };
            same_list(
                "jobs",
                &listed.map(|list, _| list.into_iter().map(|job| job.id).collect()),
            )
            .map_err(|what| format!("{what}\n  filter: {filter:?}"))?;
        }
        let groups = self
            .look("dead_letter_groups", async |store, _| {
                store.dead_letter_groups(None).await
            })
            .await?;
        let sorted = groups.map(|groups| {
            groups.map(|mut list, _| {
                list.sort_by(|a, b| (&a.task, &a.error).cmp(&(&b.task, &b.error)));
                list
            })
        });
        sorted.map_or(Ok(()), |groups| same_list("dead_letter_groups", &groups))
    }

    fn any_filter(&self, jobs: &[Job], rng: &mut Rng) -> JobFilter {
        let mut filter = JobFilter::default();
        match rng.below(8) {
            0 => filter.state = Some(*rng.pick(&State::ALL)),
            1 => filter.queue = Some(rng.pick(&self.words.queues).clone()),
            2 => filter.task = Some(rng.pick(&self.words.tasks).clone()),
            3 => {
                filter.key = rng
                    .maybe(jobs)
                    .and_then(|job| job.key.as_ref())
                    .map(|key| key.digest)
            }
            4 => filter.error = Some((*rng.pick(&["boom", "12", "%", "expired"])).to_owned()),
            5 => filter.since = Some(self.now_less(rng)),
            6 => filter.until = Some(self.now_less(rng)),
            _ => filter.dead_letters = true,
        }
        if rng.chance(50) {
            filter.state = Some(*rng.pick(&State::ALL));
        }
        filter
    }

    fn now_less(&self, rng: &mut Rng) -> Timestamp {
        Timestamp::from_millis(self.now().as_millis() - rng.between(0, 600_000))
    }

    /// Attempts and log lines.
    async fn same_details(&self, jobs: &[Job]) -> Agreed {
        let fences = &self.known.fences;
        for Job { id, .. } in jobs {
            let Some(attempts) = self
                .look("attempts", async |store, _| store.attempts(id).await)
                .await?
            else {
                continue;
            };
            let attempts = attempts.map(|mut list, side| {
                list.iter_mut()
                    .for_each(|one| one.end.fence = fences.rank(id, one.end.fence, side));
                list
            });
            same_list("attempts", &attempts).map_err(|what| format!("{what}\n  job: {id}"))?;
            let feed = log_feed(id);
            let lines = self
                .look("feed", async |store, _| store.feed(&feed, Page::first(50)).await)
                .await?;
            lines.map_or(Ok(()), |lines| {
                same_list("log lines", &lines.map(|list, _| list.items))
            })?;
        }
        Ok(())
    }

    async fn same_history(&self) -> Agreed {
        let window = Millis::from_days(30);
        let Some(history) = self
            .look("history", async |store, _| store.history(window).await)
            .await?
        else {
            return Ok(());
        };
        // Where in its minute a snapshot says it was taken is the store's business.
        let minute = |at: Timestamp| at.as_millis() / 60_000;
        same_list(
            "history",
            &history.map(|list, _| list.into_iter().map(|one| (minute(one.at), one.counts)).collect()),
        )
    }

    async fn nothing_to_repair(&self) -> Agreed {
        let findings = self
            .look("doctor", async |store, _| store.doctor(false).await)
            .await?;
        let none = |found: &[Finding], who: &str| match found {
            [] => Ok(()),
            _ => Err(format!("the doctor of {who} finds {found:?}")),
        };
        let Some(findings) = findings else { return Ok(()) };
        none(&findings.store, "the store")?;
        none(&findings.reference, "the reference")
    }

    /// Forgets jobs that are gone; called only at fixed places of a run, as the generator draws from what is known.
    pub(super) async fn forget_gone(&mut self) -> Agreed {
        let ids = self.known.jobs.clone();
        let found = self
            .reference()
            .jobs_by_id(&ids)
            .await
            .map_err(|error| format!("forget: {error:?}"))?;
        for (id, job) in ids.iter().zip(found) {
            if job.is_none() {
                self.known.forget(id);
            }
        }
        Ok(())
    }
}

/// Which owner of a key came later.
fn same_generations(jobs: &Both<Vec<Option<Job>>>) -> Agreed {
    let order = |side: Side| {
        let mut owners: BTreeMap<Digest, Vec<(i64, JobId)>> = BTreeMap::new();
        for job in jobs.of(side).iter().flatten() {
            if let Some(key) = &job.key {
                owners
                    .entry(key.digest)
                    .or_default()
                    .push((key.generation, job.id.clone()));
            }
        }
        owners.values_mut().for_each(|list| list.sort());
        owners
            .into_values()
            .map(|list| list.into_iter().map(|(_, id)| id).collect())
            .collect::<Vec<Vec<JobId>>>()
    };
    same_list(
        "the order of owners",
        &Both {
            store: order(Side::Store),
            reference: order(Side::Reference),
        },
    )
}

/// Jobs that are looked at one by one.
const SAMPLE: usize = 6;

pub(super) fn any_limit(rng: &mut Rng) -> usize {
    *rng.pick(&[7, 50, 500])
}

/// Every row of a list, page by page.
pub(super) async fn all<T: Debug>(
    limit: usize,
    fetch: impl AsyncFn(Page) -> Result<Listing<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut page = Page::first(limit);
    let mut rows = Vec::new();
    loop {
        let listing = fetch(page).await?;
        rows.extend(listing.items);
        match listing.next_cursor {
            Some(cursor) => page = Page::after(cursor, limit),
            None => return Ok(rows),
        }
    }
}
