//! Steps, and those in doubt.

use semel_core::dedup::key;
use semel_core::job::Phase;
use semel_core::step::{StepRecord, StepState};
use semel_core::store::StepFilter;
use semel_core::view::StepView;

use crate::effects::read_step;
use crate::fail::Fail;
use crate::inspect::Look;
use crate::rows;
use crate::statements::{Sql, Statements};

impl Look<'_> {
    /// Steps of a chain, or those in doubt.
    pub fn steps(&mut self, filter: &StepFilter) -> Result<Vec<StepView>, Fail> {
        let mut views = Vec::new();
        for record in step_records(&mut self.statements, filter, self.ns)? {
            let in_doubt = self.is_in_doubt(&record)?;
            let known = matches!(filter, StepFilter::Origin(_)) || in_doubt;
            if known && self.is_ours(&record)? {
                let key = key::downstream(
                    self.namespace,
                    record.origin.as_str(),
                    &record.name,
                    record.generation,
                );
                views.push(StepView {
                    origin: record.origin,
                    name: record.name,
                    state: record.state,
                    in_doubt,
                    job: record.job,
                    begun_at: record.begun_at,
                    ended_at: record.ended_at,
                    output: record.output,
                    key,
                });
            }
        }
        Ok(views)
    }

    fn is_in_doubt(&mut self, record: &StepRecord) -> Result<bool, Fail> {
        if record.state != StepState::Begun {
            return Ok(false);
        }
        let row = match self.seq(&record.job)? {
            Some(seq) => self.life(seq)?,
            None => None,
        };
        Ok(!row.is_some_and(|row| row.life.phase == Phase::Running && row.life.fence == record.fence))
    }

    /// Steps belong to their chain: they are seen for as long as one of its jobs is.
    fn is_ours(&mut self, record: &StepRecord) -> Result<bool, Fail> {
        let origin = rows::id_bytes(&record.origin, self.ns);
        let found = self
            .statements
            .get(Sql::OriginList)?
            .query_map([origin], |row| row.get::<_, i64>(0))?;
        let mut seqs = found.collect::<rusqlite::Result<Vec<_>>>()?;
        seqs.extend(self.seq(&record.origin)?);
        for seq in seqs {
            if self.life(seq)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Steps as stored.
pub fn step_records(
    statements: &mut Statements<'_>,
    filter: &StepFilter,
    ns: i64,
) -> Result<Vec<StepRecord>, Fail> {
    let found = match filter {
        StepFilter::Origin(origin) => {
            let Some(origin) = rows::id_bytes(origin, ns) else {
                return Ok(Vec::new());
            };
            statements
                .get(Sql::StepList)?
                .query_map([origin], read_step)?
                .collect::<rusqlite::Result<Vec<_>>>()
        }
        StepFilter::InDoubt => statements
            .get(Sql::StepBegun)?
            .query_map([], read_step)?
            .collect(),
    };
    Ok(found?)
}
