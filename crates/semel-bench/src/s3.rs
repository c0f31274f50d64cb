//! A store in a bucket, beside plain writes to the same bucket.

mod puts;
mod requests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use object_store::ObjectStore;

use semel_s3::{S3Options, S3Store};

use crate::bench::Bench;
use crate::load::{Kind, Load};
use crate::rig::Rig;
use crate::rounds::{Contestant, alternate};
use crate::s3::puts::Puts;
use crate::settings::Group;
use crate::subjects::{Callers, Lifecycle, Process, Submitting, What, better_lifecycle};

/// The groups that are measured of this store.
pub(crate) const GROUPS: [Group; 6] = [
    Group::Requests,
    Group::Singles,
    Group::Callers,
    Group::Duplicates,
    Group::Process,
    Group::Lifecycle,
];

/// Callers at once.
const CALLERS: usize = 16;
/// Jobs in a call of those who claim and settle.
const BATCH: usize = 64;
/// Keys that are held while duplicates come in: each is several requests.
const HELD: usize = 512;

/// What the groups share.
struct Run<'a> {
    bench: &'a mut Bench,
    options: S3Options,
    bucket: Arc<dyn ObjectStore>,
    stores: usize,
}

/// Measures some groups, and leaves nothing in the bucket.
pub(crate) fn measure(bench: &mut Bench, groups: &[Group]) -> Result<()> {
    let url = bench
        .settings
        .store
        .clone()
        .context("a bucket is measured by its URL")?;
    let mut options = S3Options::from_url(&url)?;
    let name = format!(
        "semel-bench-{:016x}",
        RandomState::new().hash_one(std::process::id())
    );
    options.prefix = match options.prefix.as_str() {
        "" => name,
        prefix => format!("{prefix}/{name}"),
    };
    options.create = true;
    eprintln!(
        "measuring in s3://{}/{}, which is removed afterwards",
        options.bucket, options.prefix
    );
    bench.report.add_notes([format!(
        "ceilings: plain PUT of about 900 bytes by the same client; claims and settlements {BATCH} at a time; {} of the \
         endpoint {}",
        options.bucket,
        options.endpoint.as_deref().unwrap_or("of AWS")
    )]);
    let bucket = S3Store::bucket(&options)?;
    let mut run = Run {
        bench,
        options,
        bucket,
        stores: 0,
    };
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
            Group::Requests => requests::measure(self),
            Group::Singles => self.singles(),
            Group::Callers => self.callers(),
            Group::Duplicates => self.duplicates(),
            Group::Process => self.process(),
            Group::Lifecycle => self.lifecycle(),
            Group::Bulk | Group::Sizes | Group::Syncs => {
                bail!("{} is nothing to measure in a bucket", group.word())
            }
        }
    }

    /// Opens a store where none was.
    fn fresh_store(&mut self) -> Result<Arc<S3Store>> {
        self.stores += 1;
        let options = S3Options {
            prefix: format!("{}/{}", self.options.prefix, self.stores),
            ..self.options.clone()
        };
        self.open(options)
    }

    fn open(&self, options: S3Options) -> Result<Arc<S3Store>> {
        Ok(Arc::new(self.bench.block_on(S3Store::open(options))?))
    }

    fn rig_on(&self, store: Arc<S3Store>) -> Result<Rig> {
        let load = Load::new(self.bench.settings.seed)?;
        Rig::new(store, self.bench.handle(), load, BATCH)
    }

    fn rig(&mut self) -> Result<Rig> {
        let store = self.fresh_store()?;
        self.rig_on(store)
    }

    fn puts(&self, name: &str, callers: usize) -> Contestant {
        let place = format!("{}/raw", self.options.prefix);
        let puts = Puts::new(self.bucket.clone(), self.bench.handle(), place, callers);
        Contestant::ceiling(name, callers, puts)
    }

    /// Removes everything that was made so far.
    fn clear(&self) -> Result<()> {
        self.bench
            .block_on(puts::remove(&self.bucket, &self.options.prefix))
    }

    fn singles(&mut self) -> Result<()> {
        let mut contestants = vec![self.puts("ceiling_put_1", 1)];
        for (name, kind) in [("enqueue_1", Kind::Plain), ("enqueue_unique", Kind::Unique)] {
            let subject = Submitting::new(self.rig()?, What::Fresh(kind), 1);
            contestants.push(Contestant::new(name, "ceiling_put_1", 1, subject));
        }
        alternate(self.bench, contestants)
    }

    fn callers(&mut self) -> Result<()> {
        let mut contestants = vec![self.puts("ceiling_put_c16", CALLERS)];
        for (name, kind) in [("enqueue_c16", Kind::Plain), ("enqueue_unique_c16", Kind::Unique)] {
            let subject = Callers::of(self.rig()?, CALLERS, What::Fresh(kind), name);
            contestants.push(Contestant::new(name, "ceiling_put_c16", CALLERS, subject));
        }
        alternate(self.bench, contestants)
    }

    fn duplicates(&mut self) -> Result<()> {
        let rig = self.rig()?;
        rig.fill(Kind::Unique, self.bench.settings.held.min(HELD), 0)?;
        let subject = Callers::of(rig, CALLERS, What::Duplicates, "enqueue_dup");
        let contestants = vec![
            self.puts("ceiling_put_c16", CALLERS),
            Contestant::new("enqueue_dup", "ceiling_put_c16", CALLERS, subject),
        ];
        alternate(self.bench, contestants)
    }

    fn process(&mut self) -> Result<()> {
        let plain = Process::new(self.rig()?, Kind::Plain, "");
        let unique = Process::new(self.rig()?, Kind::Unique, "_unique");
        let contestants = vec![
            self.puts("ceiling_put_c16", CALLERS),
            Contestant::new("process", "ceiling_put_c16", BATCH, plain),
            Contestant::new("process_unique", "ceiling_put_c16", BATCH, unique),
        ];
        alternate(self.bench, contestants)
    }

    fn lifecycle(&mut self) -> Result<()> {
        let rig = self.rig()?;
        let against = "ceiling_put_c16";
        let sequential = Lifecycle::sequential(rig.clone());
        let contestants = vec![
            self.puts(against, CALLERS),
            Contestant::new("lifecycle_sequential", against, BATCH, sequential),
            Contestant::new("lifecycle_pipelined", against, BATCH, Lifecycle::pipelined(rig)),
        ];
        alternate(self.bench, contestants)?;
        better_lifecycle(&mut self.bench.report, "")
    }
}
