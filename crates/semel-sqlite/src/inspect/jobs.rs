//! Lists of jobs, and the deliveries of one.

use rusqlite::{Row, params};

use semel_core::ids::{JobId, Name};
use semel_core::job::{Phase, State};
use semel_core::lifecycle::{AttemptEnd, AttemptResult};
use semel_core::store::{JobFilter, Page, Sought};
use semel_core::view::{AttemptView, Job, Listing};

use crate::fail::Fail;
use crate::inspect::{Look, SEARCH};
use crate::rows;
use crate::statements::Sql;

impl Look<'_> {
    /// Jobs by filter, newest first.
    pub fn jobs(&mut self, filter: &JobFilter, page: &Page) -> Result<Listing<Job>, Fail> {
        let query = format!("jobs {filter:?}");
        let before = page.position(&query)?.unwrap_or(i64::MAX);
        let (candidates, looked_to) = self.candidates(filter, before)?;
        let mut items = Vec::new();
        let full = candidates.len();
        for (at, seq) in candidates.into_iter().enumerate() {
            // Who follows an owner of the key waits for it and has none to show.
            let awaited = |job: &Job| filter.key.filter(|_| job.state == State::Deferred);
            let key = |job: &Job| job.key.as_ref().map(|key| key.digest).or_else(|| awaited(job));
            let asked_for = |job: &Job| filter.finds(&Sought::of(job, key(job)));
            if let Some(job) = self.job(seq)?.filter(asked_for) {
                items.push(job);
            }
            if items.len() == page.limit {
                let more = at + 1 < full || looked_to.is_some();
                return Ok(Listing {
                    items,
                    next_cursor: more.then(|| Page::cursor(&query, seq)),
                });
            }
        }
        Ok(Listing {
            items,
            next_cursor: looked_to.map(|to| Page::cursor(&query, to)),
        })
    }

    /// Numbers of jobs that may match, newest first, and how far was looked if not to the end.
    fn candidates(&mut self, filter: &JobFilter, before: i64) -> Result<(Vec<i64>, Option<i64>), Fail> {
        if let Some(digest) = filter.key {
            return Ok((self.of_key(&digest, before)?, None));
        }
        let state = if filter.dead_letters {
            Some(State::Failed)
        } else {
            filter.state
        };
        match state {
            Some(State::Running) => Ok((self.leased(before)?, None)),
            Some(State::Failed) => self.rare(Phase::Failed, filter, before),
            Some(State::Cancelled) => self.rare(Phase::Cancelled, filter, before),
            Some(State::Parked) => self.rare(Phase::Parked, filter, before),
            Some(State::Deferred) => self.rare(Phase::Deferred, filter, before),
            state => self.scan(filter, state, before),
        }
    }

    fn wanted(&self, filter: &JobFilter, lane: i64) -> bool {
        let is = |wanted: &Option<Name>, name: &Name| wanted.as_ref().is_none_or(|wanted| wanted == name);
        self.lanes
            .get(&lane)
            .is_some_and(|(queue, task)| is(&filter.queue, queue) && is(&filter.task, task))
    }

    pub(super) fn rare(
        &mut self,
        phase: Phase,
        filter: &JobFilter,
        before: i64,
    ) -> Result<(Vec<i64>, Option<i64>), Fail> {
        const MOST: usize = 2_000;
        let lanes: Vec<i64> = self
            .lanes
            .keys()
            .copied()
            .filter(|lane| self.wanted(filter, *lane))
            .collect();
        let mut seqs: Vec<i64> = Vec::new();
        for lane in lanes {
            let scan = self.statements.get(Sql::RareScan)?;
            let found = scan.query_map(params![phase as i64, lane, before, MOST as i64], |row| row.get(0))?;
            for seq in found {
                seqs.push(seq?);
            }
        }
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        let cut = seqs.len() > MOST;
        seqs.truncate(MOST);
        let to = if cut || seqs.len() == MOST {
            seqs.last().copied()
        } else {
            None
        };
        Ok((seqs, to))
    }

    fn leased(&mut self, before: i64) -> Result<Vec<i64>, Fail> {
        let mut seqs = Vec::new();
        let mut batches = self.statements.get(Sql::LeaseAll)?.query([self.ns])?;
        while let Some(row) = batches.next()? {
            seqs.extend(
                rows::unpack(row.get_ref(0)?.as_blob()?)
                    .into_iter()
                    .filter(|seq| *seq < before),
            );
        }
        drop(batches);
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        Ok(seqs)
    }

    fn scan(
        &mut self,
        filter: &JobFilter,
        state: Option<State>,
        before: i64,
    ) -> Result<(Vec<i64>, Option<i64>), Fail> {
        const MOST: usize = 2_000;
        let (mut seqs, mut looked, mut last) = (Vec::new(), 0i64, before);
        let now = self.now.as_millis();
        let lanes: std::collections::HashSet<i64> = self
            .lanes
            .keys()
            .copied()
            .filter(|lane| self.wanted(filter, *lane))
            .collect();
        let mut rows = self
            .statements
            .get(Sql::LifeScan)?
            .query(params![before, SEARCH])?;
        while let Some(row) = rows.next()? {
            looked += 1;
            last = row.get(0)?;
            let phase: i64 = row.get(2)?;
            let fits = match state {
                None => true,
                Some(State::Complete) => phase == Phase::Complete as i64,
                Some(State::Scheduled) => phase == Phase::Waiting as i64 && row.get::<_, i64>(3)? > now,
                Some(State::Queued) => phase == Phase::Waiting as i64 && row.get::<_, i64>(3)? <= now,
                Some(_) => false,
            };
            if fits && lanes.contains(&row.get::<_, i64>(1)?) {
                seqs.push(last);
            }
            if seqs.len() == MOST {
                return Ok((seqs, Some(last)));
            }
        }
        Ok((seqs, (looked == SEARCH).then_some(last)))
    }

    /// The deliveries of a job that have ended, oldest first.
    pub fn attempts(&mut self, id: &JobId) -> Result<Vec<AttemptView>, Fail> {
        let Some(seq) = self.seq(id)? else {
            return Ok(Vec::new());
        };
        let Some(row) = self.life(seq)? else {
            return Ok(Vec::new());
        };
        if self.statements.get(Sql::StubFind)?.exists([seq])? {
            return Ok(Vec::new());
        }
        let read = |row: &Row<'_>| {
            let end = AttemptEnd {
                attempt: row.get(0)?,
                fence: row.get(1)?,
                began_at: rows::optional_time(row, 2)?,
                ended_at: rows::time(row.get(3)?),
                result: rows::decode(row, 4, &rows::RESULTS)?,
                error: row.get(5)?,
            };
            Ok((end, row.get::<_, Option<i64>>(6)?))
        };
        let found = self.statements.get(Sql::AttemptList)?.query_map([seq], read)?;
        let mut ends = found.collect::<rusqlite::Result<Vec<_>>>()?;
        if let (Phase::Complete, Some(ended_at)) = (row.life.phase, row.life.finished_at) {
            let end = AttemptEnd {
                attempt: row.life.attempt,
                fence: row.life.fence,
                began_at: row.life.began,
                ended_at,
                result: AttemptResult::Complete,
                error: None,
            };
            ends.push((end, row.worker));
        }
        ends.into_iter()
            .map(|(end, worker)| {
                Ok(AttemptView {
                    end,
                    worker: self.worker(worker)?,
                })
            })
            .collect()
    }
}
