//! A store with a past, made by the store itself under a clock that is moved by hand.

use std::sync::Arc;

use semel_core::dedup::{Dedup, OnDuplicate};
use semel_core::ids::{JobId, Name, Token};
use semel_core::json::Json;
use semel_core::lifecycle::Settle;
use semel_core::step::StepPhase;
use semel_core::store::{
    Act, Beat, ClaimRequest, Control, ExtendRequest, SettingChange, Settlement, StepRequest, Store, Target,
};
use semel_core::submission::{RunAt, Submission};
use semel_core::time::{ManualClock, Millis, Timestamp};
use semel_sqlite::{Options, SqliteStore};

use super::Stage;

/// How the ids of seeded jobs begin.
pub const PREFIX: &str = "01a3185c-5000";

/// A store being furnished.
pub struct Seeds {
    pub store: SqliteStore,
    clock: Arc<ManualClock>,
    next: u8,
    now: Timestamp,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

impl Stage {
    /// Begins a store `semel.db` whose clock shows three hours ago.
    pub fn seeds(&self) -> Seeds {
        let now = semel::clock::now();
        let start = Timestamp::from_millis(now.as_millis() - 3 * 3_600_000);
        let clock = Arc::new(ManualClock::new(start));
        let store = SqliteStore::open_with_clock(Options::new(self.file("semel.db")), clock.clone()).unwrap();
        Seeds {
            store,
            clock,
            next: 0,
            now,
        }
    }

    /// A store in which everything has happened that a screen can show.
    pub fn eventful(self) -> Self {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut seeds = self.seeds();
            seeds.tell_the_story().await;
        });
        self
    }
}

impl Seeds {
    /// Tokens, and with them ids, are the same in every run.
    fn token(&mut self) -> Token {
        self.next += 1;
        Token::from_parts(1_800_000_000_000, &[self.next; 10])
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(Millis::from_secs(seconds));
    }

    pub fn submission(&mut self, task: &str, input: &str, producer: &str) -> Submission {
        let mut submission = Submission::new(self.token(), name(task), Json::new(input).unwrap());
        submission.producer = Some(name(producer));
        submission
    }

    pub async fn submit(&mut self, submission: Submission) -> JobId {
        let answers = self.store.submit(vec![submission]).await.unwrap();
        answers[0].id().unwrap().clone()
    }

    pub async fn claim(&mut self, task: &str, worker: &str) -> (JobId, i64) {
        let request = ClaimRequest {
            token: self.token(),
            worker: name(worker),
            queues: Vec::new(),
            tasks: vec![name(task)],
            max: 1,
            lease: Millis::from_secs(3_600),
        };
        let claimed = self.store.claim(request).await.unwrap().remove(0);
        (claimed.job.id, claimed.fence)
    }

    pub async fn settle(&mut self, (id, fence): (JobId, i64), result: Settle) {
        self.store
            .settle(vec![Settlement { id, fence, result }])
            .await
            .unwrap();
    }

    async fn say(&mut self, (id, fence): &(JobId, i64), progress: Option<f64>, line: &str) {
        let beat = Beat {
            id: id.clone(),
            fence: *fence,
            progress,
            log: vec![line.to_owned()],
        };
        let request = ExtendRequest {
            leases: vec![beat],
            lease: Millis::from_secs(3_600),
        };
        self.store.extend(request).await.unwrap();
    }

    async fn step(&mut self, (id, fence): &(JobId, i64), step: &str, phase: StepPhase) {
        let request = StepRequest {
            id: id.clone(),
            fence: *fence,
            step: name(step),
            phase,
        };
        self.store.steps(vec![request]).await.unwrap();
    }

    /// A charge that fails for good after blocking others, a mail that is sent, a paused queue, a video under
    /// way, two versions of a page of which the second waits for the first, a report for later.
    async fn tell_the_story(&mut self) {
        let error = |text: &str| Settle::Retry {
            error: text.to_owned(),
            delay: None,
        };
        let mut charge = self.submission("charge_customer", r#"{"order":"ORD-1","amount":4200}"#, "shop-1");
        charge.policy = Dedup::idempotency_key("ORD-1").into();
        charge.max_attempts = 2;
        let mut again = charge.clone();
        self.submit(charge).await;
        for (producer, input) in [
            ("shop-2", r#"{"amount":4200,"order":"ORD-1"}"#),
            ("shop-3", r#"{"order":"ORD-1","amount":1}"#),
        ] {
            again.token = self.token();
            again.producer = Some(name(producer));
            again.content.input = Json::new(input).unwrap();
            self.submit(again.clone()).await;
        }
        let mut mail = self.submission("send_mail", r#"{"to":"ann@example.com"}"#, "shop-1");
        mail.queue = name("mail");
        self.submit(mail).await;

        let first = self.claim("charge_customer", "w-1").await;
        self.say(&first, None, "asking the bank").await;
        self.pass(2);
        self.settle(first, error("card declined by bank 17")).await;
        self.pass(5);
        let second = self.claim("charge_customer", "w-2").await;
        self.pass(1);
        self.settle(second, error("card declined by bank 23\nwith a trace below"))
            .await;
        let mailing = self.claim("send_mail", "w-1").await;
        self.pass(1);
        let sent = Settle::Complete {
            output: Some(Json::new(r#"{"message":"250 OK"}"#).unwrap()),
        };
        self.settle(mailing, sent).await;

        let mut waiting = self.submission("send_mail", r#"{"to":"bob@example.com"}"#, "shop-1");
        waiting.queue = name("mail");
        waiting.policy = Dedup::unique().into();
        self.submit(waiting).await;
        let pause = SettingChange::Pause {
            lasting: None,
            reason: Some("provider is down".to_owned()),
        };
        self.store.set(Target::Queue(name("mail")), pause).await.unwrap();

        let mut report = self.submission("report", "null", "cron");
        report.run_at = RunAt::At(self.now.plus(Millis::from_secs(9_000)));
        report.priority = 5;
        self.submit(report).await;
        let sync = self.submission("sync_user", r#"{"user":7}"#, "api");
        self.submit(sync).await;
        let thrown = self.submission("sync_user", r#"{"user":8}"#, "api");
        let thrown = self.submit(thrown).await;
        self.store.act(vec![Act::Cancel { id: thrown }]).await.unwrap();

        let refund = self.submission("refund", r#"{"order":"ORD-0"}"#, "shop-1");
        self.submit(refund).await;
        let refunding = self.claim("refund", "w-2").await;
        let token = self.token();
        self.step(&refunding, "stripe", StepPhase::Begin { token }).await;
        let output = Json::new(r#"{"refund":"re_1"}"#).unwrap();
        self.step(&refunding, "stripe", StepPhase::Confirm { output })
            .await;
        let token = self.token();
        self.step(&refunding, "mail", StepPhase::Begin { token }).await;
        let reason = "step mail may have happened".to_owned();
        self.settle(refunding, Settle::Park { reason }).await;

        self.pass(10_000);
        for version in 1..=2 {
            let mut page = self.submission(
                "render",
                &format!(r#"{{"page":"home","version":{version}}}"#),
                "cms",
            );
            let mut policy = Dedup::explicit("home").latest();
            policy.on_duplicate = OnDuplicate::Latest;
            page.policy = policy.into();
            self.submit(page).await;
            if version == 1 {
                let rendering = self.claim("render", "w-3").await;
                self.say(&rendering, Some(0.42), "half-way").await;
            }
        }
    }
}
