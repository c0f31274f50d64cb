//! Reading, deciding, writing: how a cell changes.
//!
//! Three rules, each needed so that nothing gets lost between two requests:
//! 1. A write is conditional, signed with a nonce, and read back where its answer is lost or undecided.
//! 2. A job is advertised before it is written: the hint of a new place in the queue, and the entry of a new lease,
//!    are there before the cell says so. A hint is a question, the cell is the answer.
//! 3. An entry of an index goes only after the entry for where the job is now is there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use semel_core::error::StoreError;
use semel_core::ids::{JobId, Name};
use semel_core::job::Phase;
use semel_core::store::log_feed;
use semel_core::time::{Millis, Timestamp};

use crate::bucket::{Bucket, Listed, Patience, Tag, Written};
use crate::cell::Cell;
use crate::clock::{Moment, Time, random};
use crate::entries::Entries;
use crate::layout;
use crate::record::{Arrival, Record};
use crate::setup::Setup;
use crate::wake::Wake;

/// Requests of one call that are on their way at the same time.
pub const AT_ONCE: usize = 32;
/// Cells that are remembered. Beyond that everything is forgotten, and learned anew.
const REMEMBERED: usize = 200_000;
/// Locks by which the tasks of this process queue up for a cell.
const STRIPES: usize = 512;

/// What all calls of a handle share.
pub struct Desk {
    pub bucket: Bucket,
    pub time: Arc<Time>,
    pub namespace: Name,
    pub wake: Wake,
    /// The number of this handle.
    pub handle: u32,
    counted: Mutex<(i64, u32)>,
    /// Cells as they were last seen; a write over one that has changed since is refused.
    seen: Mutex<HashMap<String, (Tag, Arc<Cell>)>>,
    /// In which cell a job is.
    homes: Mutex<HashMap<JobId, String>>,
    /// Leases as far as known, by the moment they run out.
    due: Mutex<BTreeSet<(Timestamp, String)>>,
    stripes: Vec<tokio::sync::Mutex<()>>,
    setup: tokio::sync::Mutex<(u64, Arc<Setup>)>,
    asked: std::sync::atomic::AtomicU64,
    /// One task of this process claims at a time: they would only meet at the same hints.
    pub claiming: tokio::sync::Mutex<()>,
    /// Other processes claim too.
    pub contended: std::sync::atomic::AtomicBool,
    /// The highest fence this handle has given.
    pub fence: std::sync::atomic::AtomicI64,
    /// The lease entries of this handle.
    pub entries: Mutex<Entries>,
    /// Objects that cannot be read, and why.
    pub broken: Mutex<BTreeMap<String, String>>,
    /// Hints that led to nothing, and when, in the store's milliseconds.
    pub vain: Mutex<HashMap<String, i64>>,
    /// When lease entries were last looked through, in the store's milliseconds.
    pub swept: std::sync::atomic::AtomicI64,
    /// The minute of the newest snapshot known, and when old ones were last looked for, in the store's milliseconds.
    pub snapped: std::sync::atomic::AtomicI64,
    pub thinned: std::sync::atomic::AtomicI64,
    /// When feeds were last looked through, and until when a regular round of housekeeping need not ask whose turn it
    /// is, in the store's milliseconds.
    pub fed: std::sync::atomic::AtomicI64,
    pub resting: std::sync::atomic::AtomicI64,
    /// Queues and tasks known to be in use.
    pub queues: Mutex<HashSet<Name>>,
    pub tasks: Mutex<HashSet<Name>>,
}

/// A cell as it was read.
#[derive(Clone)]
pub struct Loaded {
    pub name: String,
    pub base: Option<(Tag, Arc<Cell>)>,
    /// From memory, so perhaps not the newest.
    pub remembered: bool,
}

impl Loaded {
    /// The cell, or an empty one.
    pub fn cell(&self) -> Cell {
        self.base
            .as_ref()
            .map(|(_, cell)| Cell::clone(cell))
            .unwrap_or_default()
    }

    /// A cell that is taken not to be there.
    pub fn absent(name: String) -> Self {
        Loaded {
            name,
            base: None,
            remembered: true,
        }
    }

    /// Whether it is about to be deleted: nobody writes it any more.
    pub fn is_closed(&self) -> bool {
        self.base.as_ref().is_some_and(|(_, cell)| cell.closed.is_some())
    }

    pub fn differs(&self, cell: &Cell) -> bool {
        match &self.base {
            Some((_, base)) => **base != *cell,
            None => *cell != Cell::default(),
        }
    }
}

/// What came of a commit.
pub enum Committed {
    /// It is written; these index entries are out of date.
    Done(Vec<String>),
    /// Somebody else wrote, or nobody knows: look again.
    Again,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub fn new(bucket: Bucket, time: Arc<Time>, namespace: Name) -> Self {
        Desk {
            bucket,
            time,
            namespace,
            wake: Wake::default(),
            handle: 0,
            counted: Mutex::default(),
            seen: Mutex::default(),
            homes: Mutex::default(),
            due: Mutex::default(),
            stripes: (0..STRIPES).map(|_| tokio::sync::Mutex::default()).collect(),
            setup: tokio::sync::Mutex::default(),
            asked: std::sync::atomic::AtomicU64::new(1),
            claiming: tokio::sync::Mutex::default(),
            contended: std::sync::atomic::AtomicBool::new(false),
            fence: std::sync::atomic::AtomicI64::new(0),
            entries: Mutex::default(),
            broken: Mutex::default(),
            vain: Mutex::default(),
            swept: std::sync::atomic::AtomicI64::new(i64::MIN),
            snapped: std::sync::atomic::AtomicI64::new(i64::MIN),
            thinned: std::sync::atomic::AtomicI64::new(i64::MIN),
            fed: std::sync::atomic::AtomicI64::new(i64::MIN),
            resting: std::sync::atomic::AtomicI64::new(i64::MIN),
            queues: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    pub fn moment(&self) -> Moment {
        self.time.moment()
    }

    /// When a lease of some length that is given now runs out. Others may read a later time than this handle does: to
    /// them it must not seem to have begun earlier.
    pub fn lease_until(&self, lease: Millis) -> Timestamp {
        self.moment().now.plus(lease).plus(self.time.slack())
    }

    /// The next place in the order of arrival.
    pub fn arrival(&self, now: Timestamp) -> Arrival {
        let mut counted = lock(&self.counted);
        let (at, n) = &mut *counted;
        if now.as_millis() > *at {
            (*at, *n) = (now.as_millis(), 0);
        }
        *n += 1;
        Arrival {
            at: *at,
            handle: self.handle,
            n: *n,
        }
    }

    /// The settings as they are now. Callers that come together share one reading.
    pub async fn setup(&self) -> Result<Arc<Setup>, StoreError> {
        use std::sync::atomic::Ordering;
        let mine = self.asked.load(Ordering::SeqCst);
        let mut last = self.setup.lock().await;
        if last.0 > mine {
            return Ok(last.1.clone());
        }
        let begun = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let loaded = self.read(layout::SETTINGS).await?;
        let part = loaded.base.as_ref().and_then(|(_, cell)| cell.setup.as_ref());
        *last = (begun, Arc::new(Setup::read(part)));
        Ok(last.1.clone())
    }

    /// Reads a cell.
    pub async fn read(&self, name: &str) -> Result<Loaded, StoreError> {
        let base = match self.bucket.get(name).await? {
            Some((bytes, tag)) => {
                let known = lock(&self.seen)
                    .get(name)
                    .filter(|(seen, _)| *seen == tag)
                    .cloned();
                let cell = match known {
                    Some((_, cell)) => cell,
                    None => Arc::new(self.decode(name, &bytes)?),
                };
                self.time.heard(cell.at);
                self.remember(name, &tag, &cell);
                Some((tag, cell))
            }
            None => {
                lock(&self.broken).remove(name);
                lock(&self.seen).remove(name);
                None
            }
        };
        Ok(Loaded {
            name: name.to_owned(),
            base,
            remembered: false,
        })
    }

    /// What cannot be read is noted, for the doctor.
    pub fn decode(&self, name: &str, bytes: &[u8]) -> Result<Cell, StoreError> {
        let decoded = Cell::decode(name, bytes);
        let mut broken = lock(&self.broken);
        match &decoded {
            Ok(_) => broken.remove(name),
            Err(error) => broken.insert(name.to_owned(), error.to_string()),
        };
        decoded
    }

    /// A cell as it was last seen, or read.
    pub async fn recall(&self, name: &str) -> Result<Loaded, StoreError> {
        let known = lock(&self.seen).get(name).cloned();
        match known {
            Some(base) => Ok(Loaded {
                name: name.to_owned(),
                base: Some(base),
                remembered: true,
            }),
            None => self.read(name).await,
        }
    }

    /// A cell as it was last seen, if it was.
    pub fn seen_cell(&self, name: &str) -> Option<Arc<Cell>> {
        lock(&self.seen).get(name).map(|(_, cell)| cell.clone())
    }

    /// The tag under which a cell was last seen.
    pub fn seen_tag(&self, name: &str) -> Option<Tag> {
        lock(&self.seen).get(name).map(|(tag, _)| tag.clone())
    }

    /// How many cells are remembered.
    pub fn seen_cells(&self) -> usize {
        lock(&self.seen).len()
    }

    /// Forgets objects that are about to go.
    pub fn forget(&self, names: &[String]) {
        let mut seen = lock(&self.seen);
        names.iter().for_each(|name| drop(seen.remove(name)));
    }

    fn remember(&self, name: &str, tag: &Tag, cell: &Arc<Cell>) {
        let mut seen = lock(&self.seen);
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        seen.insert(name.to_owned(), (tag.clone(), cell.clone()));
        drop(seen);
        if cell.jobs.is_empty() || cell.points_to.is_some() {
            return;
        }
        let mut homes = lock(&self.homes);
        if homes.len() >= REMEMBERED {
            homes.clear();
        }
        let mut due = lock(&self.due);
        for job in &cell.jobs {
            if layout::parts_of(&job.spec.id).is_some_and(|(_, key)| key.is_none()) {
                homes.insert(job.spec.id.clone(), name.to_owned());
            }
            if let (Phase::Running, Some(until)) = (job.life.phase, job.life.until) {
                due.insert((until, name.to_owned()));
            }
        }
    }

    /// A lease somebody else gave.
    pub fn expect(&self, until: Timestamp, cell: &str) {
        lock(&self.due).insert((until, cell.to_owned()));
    }

    /// Cells with leases that should have run out by now, each once.
    pub fn late(&self, now: Timestamp, most: usize) -> Vec<String> {
        let mut due = lock(&self.due);
        let mut late = Vec::new();
        while late.len() < most
            && let Some((until, _)) = due.first()
            && *until <= now
        {
            late.extend(due.pop_first().map(|(_, cell)| cell));
        }
        let mut known = HashSet::new();
        late.retain(|cell| known.insert(cell.clone()));
        late
    }

    /// The cell a job is written in, if there can be such a job. With a key its id says it.
    pub async fn home(&self, id: &JobId) -> Result<Option<String>, StoreError> {
        let Some((token, key)) = layout::parts_of(id) else {
            return Ok(None);
        };
        if let Some(digest) = key {
            return Ok(Some(layout::key_cell(digest)));
        }
        let known = lock(&self.homes).get(id).cloned();
        if let Some(home) = known
            && self.seen_cell(&home).is_some_and(|cell| cell.find(id).is_some())
        {
            return Ok(Some(home));
        }
        let name = layout::task(&token.to_string());
        let loaded = self.read(&name).await?;
        let Some((_, cell)) = &loaded.base else {
            return Ok(None);
        };
        let home = match &cell.points_to {
            Some(pointer) => {
                self.read(&pointer.cell).await?;
                pointer.cell.clone()
            }
            None => name,
        };
        lock(&self.homes).insert(id.clone(), home.clone());
        Ok(Some(home))
    }

    /// The tasks of this process take turns at a cell; other processes are met by the condition of the write.
    pub async fn turn(&self, name: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.stripes[(hash % STRIPES as u64) as usize].lock().await
    }

    /// Changes the cell of a job. One that is missing there has perhaps moved out: it is brought home, and asked again.
    pub async fn change_job<T: Clone>(
        &self,
        id: &JobId,
        home: &str,
        setup: &Setup,
        is_missing: impl Fn(&T) -> bool,
        mut work: impl FnMut(&mut Cell, Moment) -> T,
    ) -> Result<T, StoreError> {
        let mut tries = 0;
        loop {
            let answer = self.change(home, true, setup, &mut work).await?;
            tries += 1;
            // More than once only where others move it at the same time.
            if !is_missing(&answer) || tries > 3 || !self.bring_home(id, home).await? {
                return Ok(answer);
            }
        }
    }

    /// Changes a cell: `work` decides on a copy of it, as often as it takes to write what it decided over exactly
    /// what it saw. Leases that have run out are taken back first, and jobs of removed queues are gone.
    ///
    /// With `recall`, it may begin with the cell as last seen: a write over an older one is refused, and an answer
    /// that needs no write is only given after reading.
    pub async fn change<T: Clone>(
        &self,
        name: &str,
        recall: bool,
        setup: &Setup,
        mut work: impl FnMut(&mut Cell, Moment) -> T,
    ) -> Result<T, StoreError> {
        let work = |cell: &mut Cell, _: usize, moment: Moment| work(cell, moment);
        self.change_counting(name, recall, setup, work).await
    }

    /// The same; `work` is told how many leases were taken back. Whoever adds up what he has taken back takes the
    /// number from the write that was done, not from what he saw before: another may have taken them back meanwhile.
    pub async fn change_counting<T: Clone>(
        &self,
        name: &str,
        recall: bool,
        setup: &Setup,
        mut work: impl FnMut(&mut Cell, usize, Moment) -> T,
    ) -> Result<T, StoreError> {
        let _turn = self.turn(name).await;
        let mut tried: Vec<(u64, T)> = Vec::new();
        let mut patience = Patience::new();
        let mut loaded = match recall {
            true => self.recall(name).await?,
            false => self.read(name).await?,
        };
        loop {
            let moment = self.moment();
            let mut cell = loaded.cell();
            cell.void(setup, moment);
            let expired = cell.expire(moment);
            let answer = work(&mut cell, expired, moment);
            if !loaded.differs(&cell) {
                if !loaded.remembered {
                    return Ok(answer);
                }
                loaded = self.read(name).await?;
                continue;
            }
            if loaded.is_closed() {
                patience.again("waiting for an object to go").await?;
                loaded = self.read(name).await?;
                continue;
            }
            let nonce = random();
            tried.push((nonce, answer.clone()));
            match self.commit(&loaded, cell, nonce, moment).await? {
                Committed::Done(stale) => {
                    self.sweep(stale).await;
                    return Ok(answer);
                }
                Committed::Again => {}
            }
            loaded = self.read(name).await?;
            if let Some((_, cell)) = &loaded.base
                && let Some((_, answer)) = tried.iter().find(|(nonce, _)| cell.was_written_by(*nonce))
            {
                return Ok(answer.clone());
            }
            if tried.len() > 1 {
                patience.again("changing a cell").await?;
            }
        }
    }

    /// Writes a cell over what was read. First its jobs are advertised (rule 2).
    pub async fn commit(
        &self,
        loaded: &Loaded,
        mut cell: Cell,
        nonce: u64,
        moment: Moment,
    ) -> Result<Committed, StoreError> {
        let name = &loaded.name;
        let before = loaded
            .base
            .as_ref()
            .map(|(_, cell)| cell.clone())
            .unwrap_or_default();
        let (mut fresh, mut stale) = (Vec::new(), Vec::new());
        let feeds = std::mem::take(&mut cell.unlogged);
        let mut ends = false;
        for job in &mut cell.jobs {
            let old = before.find(&job.spec.id);
            let spot = old.and_then(|old| old.spot());
            if spot != job.spot() {
                if spot.is_some() {
                    stale.extend(old.map(|old| layout::hint(name, old)));
                }
                if job.spot().is_some() {
                    job.placement = layout::next_placement(job.placement, random());
                    fresh.push(layout::hint(name, job));
                }
                ends |= job.life.phase.is_terminal();
            } else if old.is_none_or(|old| old.life.phase != job.life.phase) {
                ends |= job.life.phase.is_terminal();
            }
        }
        for old in &before.jobs {
            if cell.find(&old.spec.id).is_none() {
                stale.extend(old.spot().map(|_| layout::hint(name, old)));
                ends |= !old.life.phase.is_terminal();
            }
        }
        let work = !fresh.is_empty();
        let hints = fresh.iter().map(|hint| self.bucket.put(hint, Vec::new()).boxed());
        at_once(hints.collect()).await?;
        cell.describe(name, moment.now);
        cell.at = moment.now;
        cell.sign(nonce);
        let tag = loaded.base.as_ref().map(|(tag, _)| tag);
        let tag = match self.bucket.write(name, cell.encode(), tag).await? {
            Written::Done(Some(tag)) => Some(tag),
            Written::Done(None) => None,
            said @ (Written::Refused | Written::Undecided) => {
                lock(&self.seen).remove(name);
                let read = self.read(name).await?;
                match &read.base {
                    Some((_, now)) if now.was_written_by(nonce) => None,
                    now => {
                        let lost = said == Written::Refused && now.as_ref().map(|(tag, _)| tag) != tag;
                        if lost && now.is_some() {
                            // What it was about has changed, so it will never be done, and its hints are nobody else's.
                            self.sweep(fresh).await;
                        }
                        return Ok(Committed::Again);
                    }
                }
            }
        };
        if let Some(tag) = tag {
            self.remember(name, &tag, &Arc::new(cell));
        }
        self.wake.signal(work, ends);
        for id in feeds {
            self.drop_feed(&log_feed(&id)).await?;
        }
        Ok(Committed::Done(stale))
    }

    /// Removes index entries that are out of date. What cannot be removed now is found to be out of date later.
    pub async fn sweep(&self, names: Vec<String>) {
        if !names.is_empty()
            && let Err(error) = self.bucket.delete(names).await
        {
            tracing::warn!(%error, "entries that are out of date stay for now");
        }
    }

    /// Everything in some directories: what has not changed since it was last seen is not read again.
    /// Says how many bytes that is.
    pub async fn all(&self, directories: &[&str]) -> Result<(Vec<(String, Arc<Cell>)>, u64), StoreError> {
        self.some(directories, |_| true).await
    }

    /// Those of them that are wanted.
    pub async fn some(
        &self,
        directories: &[&str],
        is_wanted: impl Fn(&Listed) -> bool,
    ) -> Result<(Vec<(String, Arc<Cell>)>, u64), StoreError> {
        let mut listed = Vec::new();
        for directory in directories {
            listed.extend(self.bucket.list(directory, None, usize::MAX).await?);
        }
        listed.retain(is_wanted);
        let bytes = listed.iter().map(|one| one.size).sum();
        let known: Vec<Option<Arc<Cell>>> = {
            let seen = lock(&self.seen);
            let known = |name: &str, tag: &Tag| {
                let (seen, cell) = seen.get(name)?;
                (seen == tag).then(|| cell.clone())
            };
            listed.iter().map(|one| known(&one.name, &one.tag)).collect()
        };
        let cells = listed.into_iter().zip(known).map(|(one, known)| {
            let look = async move {
                let cell = match known {
                    Some(cell) => Some(cell),
                    None => match self.read(&one.name).await {
                        Err(error @ StoreError::Corrupt { .. }) => {
                            // One broken object does not stop other work (contract 9.5); the doctor tells of it.
                            tracing::warn!(%error, "an object is passed over");
                            None
                        }
                        read => read?.base.map(|(_, cell)| cell),
                    },
                };
                Ok(cell.map(|cell| (one.name, cell)))
            };
            look.boxed()
        });
        let cells: Vec<Option<(String, Arc<Cell>)>> = at_once(cells.collect()).await?;
        Ok((cells.into_iter().flatten().collect(), bytes))
    }

    /// Everything that has jobs, as a reader sees it: jobs of removed queues are gone.
    pub async fn cells(&self, setup: &Setup) -> Result<(Vec<(String, Arc<Cell>)>, u64), StoreError> {
        let (cells, bytes) = self.all(&[layout::KEYS, layout::TASKS]).await?;
        Ok((shown(cells, setup, self.moment()), bytes))
    }
}

/// Cells as a reader sees them: without jobs of removed queues, and without copies that do not count.
pub fn shown(cells: Vec<(String, Arc<Cell>)>, setup: &Setup, moment: Moment) -> Vec<(String, Arc<Cell>)> {
    // The copy of a job is the job only if the cell of its key lets it count.
    let is_left = |copy: &Cell| {
        let key = copy.points_to.as_ref().map(|pointer| pointer.cell.as_str());
        let at = key.map(|key| cells.binary_search_by(|(name, _)| name.as_str().cmp(key)));
        let key = at.and_then(Result::ok).map(|at| &cells[at].1);
        let counts = |job: &Record| key.is_some_and(|key| key.lets_count(&job.spec.id, copy));
        copy.copied_by.is_some() && !copy.jobs.iter().all(counts)
    };
    let left: HashSet<String> = cells
        .iter()
        .filter(|(_, cell)| is_left(cell))
        .map(|(name, _)| name.clone())
        .collect();
    let shown = |(name, cell): (String, Arc<Cell>)| {
        let left = left.contains(&name);
        if !left && !cell.jobs.iter().any(|job| setup.is_void(job)) {
            return (name, cell);
        }
        let mut shown = Cell::clone(&cell);
        if left {
            shown.jobs.clear();
            shown.steps.clear();
        }
        shown.void(setup, moment);
        (name, Arc::new(shown))
    };
    cells.into_iter().map(shown).collect()
}

/// Does things at the same time; what came of them, in order.
pub async fn at_once<T: Send>(
    things: Vec<BoxFuture<'_, Result<T, StoreError>>>,
) -> Result<Vec<T>, StoreError> {
    stream::iter(things).buffered(AT_ONCE).try_collect().await
}

/// One outcome per item, in order. Items that concern the same thing are done one after another, others at once.
pub async fn each<'a, I: Send + 'a, O: Send + 'a>(
    items: Vec<I>,
    route: impl Fn(&I) -> String,
    work: impl Fn(I) -> BoxFuture<'a, Result<O, StoreError>> + Send + Sync,
) -> Result<Vec<O>, StoreError> {
    let count = items.len();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<(usize, I)>> = Vec::new();
    for (at, item) in items.into_iter().enumerate() {
        let group = *places.entry(route(&item)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push((at, item));
    }
    let work = &work;
    let run = groups.into_iter().map(|group| {
        let one_by_one = async move {
            let mut answers = Vec::with_capacity(group.len());
            for (at, item) in group {
                answers.push((at, work(item).await?));
            }
            Ok(answers)
        };
        one_by_one.boxed()
    });
    let done: Vec<Vec<(usize, O)>> = at_once(run.collect()).await?;
    let mut answers: Vec<Option<O>> = (0..count).map(|_| None).collect();
    for (at, answer) in done.into_iter().flatten() {
        answers[at] = Some(answer);
    }
    let whole: Option<Vec<O>> = answers.into_iter().collect();
    whole.ok_or_else(|| StoreError::corrupt("an item was not answered"))
}
