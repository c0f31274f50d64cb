//! The load: several tasks that submit, claim, settle, cancel, retry and replay, and write down each call.
//!
//! It runs until it is killed. It makes the calls; what they mean is judged by the parent, from the log.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use semel_core::job::State;
use semel_core::store::{JobFilter, Page, Store};

use super::log::{Call, Log};
use super::resolve::carry_out;
use crate::harness::Harness;
use crate::kit::token;
use crate::rng::Rng;

/// Tasks at once: with several, a kill nearly always meets a call on its way.
const TASKS: u64 = 6;

/// Plays the load as a process of its own.
pub(crate) fn play(harness: &dyn Harness, location: &str, log: &str, seed: u64) -> ExitCode {
    end_with_the_parent();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let store = harness.join(location);
        let log = Arc::new(Log::open(Path::new(log)));
        let left = Left::by_the_dead(&*store).await;
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..TASKS {
            let mut loader = Loader::new(store.clone(), log.clone(), seed.wrapping_add(n));
            loader.take_over(&left, n);
            tasks.spawn(async move {
                loop {
                    loader.step().await;
                }
            });
        }
        tasks.join_all().await;
    });
    ExitCode::FAILURE
}

/// A load without a parent has nobody to kill it.
fn end_with_the_parent() {
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
        std::process::exit(0);
    });
}

/// What the loads before left, so that a short life sees more than its own beginnings.
///
/// Looked at once, before anybody acts: were each task to look for itself, a job could come to two of them, be
/// retried by one and cancelled by the other, and then again. What the parent makes of a log needs it to be cancelled
/// at most once, and not retried after that.
struct Left {
    letters: Vec<String>,
    waiting: Vec<String>,
}

impl Left {
    async fn by_the_dead(store: &dyn Store) -> Self {
        let list = async |filter| {
            let listing = store.jobs(filter, Page::first(60)).await;
            let jobs = listing.map(|listing| listing.items).unwrap_or_default();
            jobs.into_iter().map(|job| job.id.to_string()).collect()
        };
        let letters = JobFilter {
            dead_letters: true,
            ..JobFilter::default()
        };
        let waiting = JobFilter {
            state: Some(State::Queued),
            ..JobFilter::default()
        };
        Left {
            letters: list(letters).await,
            waiting: list(waiting).await,
        }
    }
}

struct Loader {
    store: Arc<dyn Store>,
    log: Arc<Log>,
    rng: Rng,
    /// Leases of mine.
    leases: Vec<(String, String)>,
    /// Deliveries I have settled: settling them again has to answer the same.
    settled: Vec<(String, String)>,
    /// Jobs I have submitted and may cancel, once.
    own: Vec<String>,
    /// Jobs I have seen fail.
    letters: Vec<String>,
}

impl Loader {
    fn new(store: Arc<dyn Store>, log: Arc<Log>, seed: u64) -> Self {
        Loader {
            store,
            log,
            rng: Rng::new(seed),
            leases: Vec::new(),
            settled: Vec::new(),
            own: Vec::new(),
            letters: Vec::new(),
        }
    }

    /// Takes over its share of what the loads before left.
    fn take_over(&mut self, left: &Left, n: u64) {
        let share = |jobs: &[String]| {
            let mine = jobs.iter().enumerate().filter(|(at, _)| *at as u64 % TASKS == n);
            mine.map(|(_, id)| id.clone()).collect()
        };
        self.letters = share(&left.letters);
        self.own = share(&left.waiting);
    }

    async fn step(&mut self) {
        match self.rng.below(100) {
            0..35 => self.submit().await,
            35..50 => self.claim().await,
            50..85 => self.settle().await,
            85..87 => self.settle_again().await,
            87..90 => self.settle_stale().await,
            90..93 => self.cancel().await,
            93..96 => self.retry().await,
            _ => self.replay().await,
        }
    }

    /// A key of each kind, or none. Few keys, so that most submissions meet a holder.
    async fn submit(&mut self) {
        let token = token();
        let request = match self.rng.below(10) {
            0..4 => format!("submit {token} - plain"),
            4..6 => format!("submit {token} u{} use_existing", self.rng.below(6)),
            6 => format!("submit {token} u{} reject", self.rng.below(6)),
            7..9 => format!("submit {token} l{} latest", self.rng.below(3)),
            _ => format!("submit {token} f{} forever", self.rng.below(200)),
        };
        let answer = self.call(request).await;
        if answer.said(0) == "accepted" {
            self.own.push(answer.said(1).to_owned());
        }
    }

    async fn claim(&mut self) {
        if self.leases.len() > 8 {
            return self.settle().await;
        }
        let request = format!("claim {} {}", token(), self.rng.between(1, 6));
        let answer = self.call(request).await;
        for lease in answer.answer.iter().flatten() {
            let (id, fence) = lease.split_once(':').expect("a job and its fence");
            self.leases.push((id.to_owned(), fence.to_owned()));
        }
    }

    async fn settle(&mut self) {
        let Some((id, fence)) = self.leases.pop() else {
            return self.submit().await;
        };
        let result = *self
            .rng
            .pick(&["complete", "complete", "complete", "fail", "retry", "hand_back"]);
        let answer = self.call(format!("settle {id} {fence} {result}")).await;
        if answer.said(1) == "failed" {
            self.letters.push(id.clone());
        }
        self.settled.push((id, fence));
        if self.settled.len() > 20 {
            self.settled.remove(0);
        }
    }

    /// A reply was lost: the same settlement, with another opinion about the result.
    async fn settle_again(&mut self) {
        if let Some((id, fence)) = self.rng.maybe(&self.settled).cloned() {
            let result = *self.rng.pick(&["complete", "fail"]);
            self.call(format!("settle {id} {fence} {result}")).await;
        }
    }

    /// A worker from the past.
    async fn settle_stale(&mut self) {
        if let Some((id, fence)) = self.rng.maybe(&self.leases).cloned() {
            let fence: i64 = fence.parse().expect("a fence");
            self.call(format!("stale {id} {} fail", fence - 1)).await;
        }
    }

    async fn cancel(&mut self) {
        if !self.own.is_empty() {
            let at = self.rng.below(self.own.len());
            let id = self.own.swap_remove(at);
            self.call(format!("cancel {id}")).await;
        }
    }

    async fn retry(&mut self) {
        if let Some(id) = self.letters.pop() {
            self.call(format!("retry {id}")).await;
        }
    }

    async fn replay(&mut self) {
        if let Some(id) = self.letters.pop() {
            self.call(format!("replay {id} {}", token())).await;
        }
    }

    /// Writes the intent down, makes the call, writes the answer down.
    async fn call(&self, request: String) -> Call {
        let n = self.log.intend(&request);
        let request = request.split(' ').map(str::to_owned).collect();
        let mut call = Call {
            request,
            answer: None,
            repeated: false,
        };
        let answer = carry_out(&*self.store, &call).await;
        self.log.answer(n, &answer.join(" "));
        call.answer = Some(answer);
        call
    }
}
