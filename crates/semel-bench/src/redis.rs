//! A store on Redis, beside plain `SET` by the same client on the same server.

mod memory;
mod sets;
mod tool;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use tokio::runtime::Handle;

use semel_core::ids::Name;
use semel_core::job::Outcome;
use semel_redis::{Raw, RedisOptions, RedisStore};

use crate::bench::Bench;
use crate::load::{Kind, Load};
use crate::redis::sets::{Sets, Way};
use crate::report::median;
use crate::rig::{LARGEST, Rig};
use crate::rounds::{Anew, Contestant, Subject, alternate, quotients};
use crate::settings::Group;
use crate::subjects::{Callers, Lifecycle, Process, Submitting, What, Worked, better_lifecycle, paced};

/// The groups that are measured of this store.
pub(crate) const GROUPS: [Group; 7] = [
    Group::Singles,
    Group::Callers,
    Group::Bulk,
    Group::Duplicates,
    Group::Process,
    Group::Lifecycle,
    Group::Sizes,
];

/// Commands in a pipeline, and callers at once.
const MANY: usize = 64;
/// How much of their rate callers are held to when it is asked how long one waits.
const PACE: f64 = 0.5;

/// What the groups share.
struct Run<'a> {
    bench: &'a mut Bench,
    options: RedisOptions,
    raw: Arc<Raw>,
    /// What all names of this run begin with.
    name: String,
    made: Made,
    /// Of the next namespace.
    number: Arc<AtomicUsize>,
}

/// Namespaces that are on the server.
type Made = Arc<Mutex<Vec<Name>>>;

/// Makes stores in namespaces of their own.
#[derive(Clone)]
struct Fresh {
    options: RedisOptions,
    name: String,
    made: Made,
    number: Arc<AtomicUsize>,
    handle: Handle,
    seed: u64,
}

impl Fresh {
    fn options(&self) -> Result<RedisOptions> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let namespace = Name::new(format!("{}-{number}", self.name))?;
        made.push(namespace.clone());
        Ok(RedisOptions {
            namespace,
            create: true,
            ..self.options.clone()
        })
    }

    fn rig(&self) -> Result<Rig> {
        let store = self.handle.block_on(RedisStore::open(self.options()?))?;
        let load = Load::new(self.seed)?.made_now();
        Rig::new(Arc::new(store), self.handle.clone(), load, LARGEST)
    }

    /// A store through which one job has been, so that its lane is there. Whatever this run has left on the server goes
    /// first: a server looks longer for everything the more there is.
    fn begun(&self, raw: &Raw) -> Result<Rig> {
        self.handle.block_on(async {
            raw.remove(&sets::pattern(&self.name)).await?;
            let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
            for namespace in made {
                raw.remove_namespace(&namespace).await?;
            }
            anyhow::Ok(())
        })?;
        let rig = self.rig()?;
        rig.fill(Kind::Unique, 1, 0)?;
        rig.block_on(async { rig.complete(rig.claim(1).await?).await })?;
        Ok(rig)
    }
}

/// Measures some groups, and leaves nothing on the server.
pub(crate) fn measure(bench: &mut Bench, groups: &[Group]) -> Result<()> {
    let url = bench
        .settings
        .store
        .clone()
        .context("a server is measured by its URL")?;
    let options = RedisOptions::from_url(&url)?;
    let raw = Arc::new(Raw::new(&options)?);
    // No longer than the names people give: it is part of every key.
    let number = RandomState::new().hash_one(std::process::id()) >> 32;
    let name = format!("bench-{number:08x}");
    eprintln!(
        "measuring on {}, in namespaces {name}-… that are removed afterwards",
        options.shown()
    );
    let mut run = Run {
        bench,
        options,
        raw,
        name,
        made: Made::default(),
        number: Arc::default(),
    };
    run.describe()?;
    let measured = groups.iter().try_for_each(|group| {
        eprintln!("measuring {}", group.word());
        run.group(*group)?;
        run.clear()
    });
    // Also after a measurement that failed.
    let cleared = run.clear();
    measured.and(cleared)
}

impl Run<'_> {
    fn group(&mut self, group: Group) -> Result<()> {
        match group {
            Group::Singles => self.singles(),
            Group::Callers => self.callers(),
            Group::Bulk => self.bulk(),
            Group::Duplicates => self.duplicates(),
            Group::Process => self.process(),
            Group::Lifecycle => self.lifecycle(),
            Group::Sizes => memory::measure(self),
            Group::Syncs | Group::Requests => bail!("{} is nothing to measure on Redis", group.word()),
        }
    }

    fn describe(&mut self) -> Result<()> {
        let info = self.bench.block_on(self.raw.info())?;
        let info = info.first().context("the server says nothing about itself")?;
        let fact = |name: &str| {
            let found = info
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.unwrap_or("unknown").trim().to_owned()
        };
        let aof = match fact("aof_enabled").as_str() {
            "1" => "yes",
            _ => "no",
        };
        self.bench.report.add_notes([format!(
            "Redis {}, appendonly {aof}, {} shards; ceilings: plain SET of about 300 bytes by the same client, and by redis-benchmark where it is installed",
            fact("redis_version"),
            self.options.shards,
        )]);
        Ok(())
    }

    fn fresh(&self) -> Fresh {
        Fresh {
            options: self.options.clone(),
            name: self.name.clone(),
            made: self.made.clone(),
            number: self.number.clone(),
            handle: self.bench.handle(),
            seed: self.bench.settings.seed,
        }
    }

    /// A store in a namespace of its own.
    fn rig(&self) -> Result<Rig> {
        self.fresh().rig()
    }

    /// What is measured of a store, or of a new one for each slice if slices are counted in jobs.
    fn subject<S: Subject + 'static>(
        &self,
        make: impl Fn(Rig) -> Result<S> + 'static,
    ) -> Result<Box<dyn Subject>> {
        let (fresh, raw) = (self.fresh(), self.raw.clone());
        Ok(match self.bench.settings.jobs {
            Some(_) => Box::new(Anew(move || make(fresh.begun(&raw)?))),
            None => Box::new(make(fresh.rig()?)?),
        })
    }

    fn sets_of(&self, way: Way) -> Sets {
        Sets::new(
            self.raw.clone(),
            self.bench.handle(),
            &self.name,
            way,
            self.bench.settings.seed,
        )
    }

    fn sets(&self, name: &str, way: Way) -> Contestant {
        Contestant::ceiling(name, way.batch(), self.sets_of(way))
    }

    fn pipelined_sets(&self) -> Contestant {
        self.sets("ceiling_set_p64", Way::Pipelined(MANY))
    }

    /// Removes everything that was made so far.
    fn clear(&mut self) -> Result<()> {
        // These first: they are by far the most names, and each namespace is looked for among all.
        self.clear_sets()?;
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        for namespace in made {
            self.bench.block_on(self.raw.remove_namespace(&namespace))?;
        }
        Ok(())
    }

    fn clear_sets(&self) -> Result<()> {
        self.bench.block_on(self.raw.remove(&sets::pattern(&self.name)))?;
        Ok(())
    }

    fn submitting(
        &mut self,
        name: &str,
        kind: Kind,
        batch: usize,
        against: &'static str,
    ) -> Result<Contestant> {
        let subject = self.subject(move |rig| Ok(Submitting::new(rig, What::Fresh(kind), batch)))?;
        Ok(Contestant::new(name, against, batch, subject))
    }

    fn singles(&mut self) -> Result<()> {
        let contestants = vec![
            self.sets("ceiling_set_1", Way::OneByOne),
            self.submitting("enqueue_1", Kind::Plain, 1, "ceiling_set_1")?,
            self.submitting("enqueue_unique", Kind::Unique, 1, "ceiling_set_1")?,
        ];
        alternate(self.bench, contestants)
    }

    fn callers(&mut self) -> Result<()> {
        let mut contestants = vec![
            self.pipelined_sets(),
            self.sets("ceiling_set_c64", Way::AtOnce(MANY)),
        ];
        let mut paced_by = Vec::new();
        for (name, kind) in [("enqueue_c64", Kind::Plain), ("enqueue_unique_c64", Kind::Unique)] {
            let rig = self.rig()?;
            paced_by.push((name, kind, rig.clone()));
            let subject = Callers::new(rig, kind, name);
            contestants.push(Contestant::new(name, "ceiling_set_p64", MANY, subject));
        }
        alternate(self.bench, contestants)?;
        for (name, kind, rig) in paced_by {
            let rate = self.bench.report.find(name).map_or(0.0, |figure| figure.value) * PACE;
            let jobs = (rate * self.bench.settings.slice.as_secs_f64()) as usize * self.bench.settings.rounds;
            let batch = rig.load.batch(kind, jobs.max(MANY))?;
            // Hundreds of thousands of other names would be a load of their own.
            self.clear_sets()?;
            let submitting = rig.clone();
            let paced = paced(&rig, batch, rate, move |submission| {
                let rig = submitting.clone();
                async move {
                    let submission = rig.load.sent_now(submission);
                    rig.submit(vec![submission], Outcome::Accepted).await
                }
            })?;
            // What plain writes wait at the same rate is the machine's part of it.
            let plain = sets::paced(&self.sets_of(Way::OneByOne), &rig, rate, jobs.max(MANY))?;
            let report = &mut self.bench.report;
            report.add(&format!("{name}_half_set_p99"), plain.millis(0.99), "ms");
            report.add(&format!("{name}_half_rate"), paced.rate, "jobs/s");
            report.add(&format!("{name}_half_p50"), paced.millis(0.50), "ms");
            report.add(&format!("{name}_half_p99"), paced.millis(0.99), "ms");
        }
        Ok(())
    }

    fn bulk(&mut self) -> Result<()> {
        if let Some(rate) = tool::measure(&self.options, &self.name, self.bench.settings.steady)? {
            self.bench
                .report
                .add_ceiling("ceiling_redis_benchmark_p64", &[rate]);
        }
        for (batch, suffix) in [(MANY, "_64"), (LARGEST, "")] {
            let contestants = vec![
                self.pipelined_sets(),
                self.submitting(
                    &format!("enqueue_bulk{suffix}"),
                    Kind::Plain,
                    batch,
                    "ceiling_set_p64",
                )?,
                self.submitting(
                    &format!("enqueue_unique_bulk{suffix}"),
                    Kind::Unique,
                    batch,
                    "ceiling_set_p64",
                )?,
            ];
            alternate(self.bench, contestants)?;
        }
        let report = &mut self.bench.report;
        let costs = quotients(
            report.rounds_of("enqueue_bulk"),
            report.rounds_of("enqueue_unique_bulk"),
        );
        report.add("unique_over_plain", median(&costs), "x");
        Ok(())
    }

    fn duplicates(&mut self) -> Result<()> {
        let held = self.bench.settings.jobs.unwrap_or(self.bench.settings.held);
        let subject = self.subject(move |rig| {
            rig.fill(Kind::Unique, held, 0)?;
            Ok(Submitting::new(rig, What::Duplicates, LARGEST))
        })?;
        let contestants = vec![
            self.pipelined_sets(),
            Contestant::new("enqueue_dup", "ceiling_set_p64", LARGEST, subject),
        ];
        alternate(self.bench, contestants)
    }

    fn process(&mut self) -> Result<()> {
        let plain = self.subject(|rig| Ok(Process::new(rig, Kind::Plain, "")))?;
        let unique = self.subject(|rig| Ok(Process::new(rig, Kind::Unique, "_unique")))?;
        let worked = self.subject(|rig| Ok(Worked::new(rig, Kind::Plain)))?;
        let contestants = vec![
            self.pipelined_sets(),
            Contestant::new("process_worker", "ceiling_set_p64", LARGEST, worked),
            Contestant::new("process", "ceiling_set_p64", LARGEST, plain),
            Contestant::new("process_unique", "ceiling_set_p64", LARGEST, unique),
        ];
        alternate(self.bench, contestants)
    }

    fn lifecycle(&mut self) -> Result<()> {
        let (sequential, pipelined) = match self.bench.settings.jobs {
            Some(_) => (
                self.subject(|rig| Ok(Lifecycle::sequential(rig)))?,
                self.subject(|rig| Ok(Lifecycle::pipelined(rig)))?,
            ),
            None => {
                let rig = self.rig()?;
                let both = (Lifecycle::sequential(rig.clone()), Lifecycle::pipelined(rig));
                (Box::new(both.0) as _, Box::new(both.1) as _)
            }
        };
        let contestants = vec![
            self.pipelined_sets(),
            Contestant::new("lifecycle_sequential", "ceiling_set_p64", LARGEST, sequential),
            Contestant::new("lifecycle_pipelined", "ceiling_set_p64", LARGEST, pipelined),
        ];
        alternate(self.bench, contestants)?;
        better_lifecycle(&mut self.bench.report, "")
    }
}
