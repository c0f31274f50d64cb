//! Measurements that take turns, so that a noisy machine is noisy for all of them.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::report::{Ratio, median};

/// Something that can be measured for a while.
pub(crate) trait Subject {
    /// Prepares, does so many jobs, and says how long the doing took.
    fn slice(&mut self, jobs: usize) -> Result<Slice>;
}

impl Subject for Box<dyn Subject> {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        (**self).slice(jobs)
    }
}

/// Something that is made anew for each slice.
#[cfg(feature = "redis")]
pub(crate) struct Anew<F>(pub(crate) F);

#[cfg(feature = "redis")]
impl<S: Subject, F: FnMut() -> Result<S>> Subject for Anew<F> {
    fn slice(&mut self, jobs: usize) -> Result<Slice> {
        (self.0)()?.slice(jobs)
    }
}

/// What a slice showed.
pub(crate) struct Slice {
    jobs: usize,
    elapsed: Duration,
    /// Other figures of this slice: what is appended to the name, value, unit.
    parts: Vec<Part>,
}

impl Slice {
    /// So many jobs in that time.
    pub(crate) fn new(jobs: usize, elapsed: Duration) -> Self {
        Slice {
            jobs,
            elapsed,
            parts: Vec::new(),
        }
    }

    /// Adds a figure with a name of its own.
    pub(crate) fn with(mut self, metric: impl Into<String>, value: f64, unit: &'static str) -> Self {
        self.parts.push(Part {
            metric: metric.into(),
            value,
            unit,
        });
        self
    }

    fn rate(&self) -> f64 {
        rate(self.jobs, self.elapsed)
    }
}

/// Jobs per second.
pub(crate) fn rate(jobs: usize, elapsed: Duration) -> f64 {
    jobs as f64 / elapsed.as_secs_f64().max(1e-9)
}

#[derive(Clone)]
struct Part {
    metric: String,
    value: f64,
    unit: &'static str,
}

/// One of those who take turns.
pub(crate) struct Contestant {
    name: String,
    ceiling: Option<&'static str>,
    /// Jobs are done in multiples of this.
    batch: usize,
    subject: Box<dyn Subject>,
    rates: Vec<f64>,
    parts: Vec<Vec<Part>>,
}

impl Contestant {
    /// The raw ceiling of that name.
    pub(crate) fn ceiling(name: &str, batch: usize, subject: impl Subject + 'static) -> Self {
        Contestant {
            name: name.to_owned(),
            ceiling: None,
            batch,
            subject: Box::new(subject),
            rates: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// A measurement that is compared with a ceiling of the same rounds.
    pub(crate) fn new(
        name: impl Into<String>,
        against: &'static str,
        batch: usize,
        subject: impl Subject + 'static,
    ) -> Self {
        Contestant {
            ceiling: Some(against),
            ..Contestant::ceiling(&name.into(), batch, subject)
        }
    }

    /// One of the other figures, round by round.
    fn values(&self, at: usize) -> Vec<f64> {
        self.parts.iter().map(|parts| parts[at].value).collect()
    }

    fn turn(&mut self, jobs: usize) -> Result<f64> {
        let jobs = jobs.div_ceil(self.batch).max(1) * self.batch;
        let slice = self
            .subject
            .slice(jobs)
            .with_context(|| format!("measuring {}", self.name))?;
        let rate = slice.rate();
        self.rates.push(rate);
        self.parts.push(slice.parts);
        Ok(rate)
    }
}

/// Lets all take turns, and reports the medians.
pub(crate) fn alternate(bench: &mut Bench, mut contestants: Vec<Contestant>) -> Result<()> {
    let slice = bench.settings.slice.as_secs_f64();
    let mut paces = Vec::with_capacity(contestants.len());
    for contestant in &mut contestants {
        // The first slice warms up and finds the pace; it does not count.
        paces.push(contestant.turn(contestant.batch * 4)?);
        contestant.rates.clear();
        contestant.parts.clear();
    }
    for _ in 0..bench.settings.rounds {
        for (contestant, pace) in contestants.iter_mut().zip(&mut paces) {
            let jobs = bench.settings.jobs.unwrap_or((*pace * slice) as usize);
            *pace = contestant.turn(jobs)?;
        }
    }
    for contestant in &contestants {
        report(bench, contestant, &contestants);
    }
    Ok(())
}

fn report(bench: &mut Bench, contestant: &Contestant, all: &[Contestant]) {
    let Some(against) = contestant.ceiling else {
        bench.report.add_ceiling(&contestant.name, &contestant.rates);
        for (at, part) in contestant.parts.first().into_iter().flatten().enumerate() {
            bench
                .report
                .add(&part.metric, median(&contestant.values(at)), part.unit);
        }
        return;
    };
    let ceiling = all
        .iter()
        .find(|other| other.name == against)
        .map_or(&[][..], |other| &other.rates);
    let of_ceiling = |rates: &[f64]| Ratio {
        value: median(&quotients(rates, ceiling)),
        of: against.to_owned(),
    };
    let ratio = of_ceiling(&contestant.rates);
    bench.report.add_rate(&contestant.name, &contestant.rates, ratio);
    for (at, part) in contestant.parts.first().into_iter().flatten().enumerate() {
        let values = contestant.values(at);
        match part.unit {
            "jobs/s" => bench.report.add_rate(&part.metric, &values, of_ceiling(&values)),
            unit => bench.report.add(&part.metric, median(&values), unit),
        }
    }
}

/// Round by round, one over the other.
pub(crate) fn quotients(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}
