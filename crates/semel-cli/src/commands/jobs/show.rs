//! `semel jobs show`

mod sections;

use clap::Args;
use semel_core::ids::JobId;
use semel_core::store::{FeedEntry, LedgerFilter, Page as StorePage, StepFilter, log_feed};
use semel_core::view::{AttemptView, Job, KeyRow, LedgerEntry, Listing, StepView};

use crate::commands::keys;
use crate::diagnosis::{Case, Reason};
use crate::exit::Exit;
use crate::live::LiveWorkers;
use crate::problem::Problem;
use crate::screen::{Page, Tone, clean, one_line, paint, plural, span, state_tone};
use crate::session::Session;
use crate::{redact, wire, wording};

/// Log lines and absorbed submissions that are shown.
const RECENT: usize = 20;

/// Arguments of `semel jobs show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The job
    #[arg(value_parser = |text: &str| JobId::new(text))]
    pub id: JobId,
}

/// Everything that is known about a job.
struct Known {
    job: Job,
    key: Option<KeyRow>,
    attempts: Vec<AttemptView>,
    steps: Vec<StepView>,
    log: Vec<FeedEntry>,
    absorbed: Listing<LedgerEntry>,
    reasons: Vec<Reason>,
}

/// Shows a job.
pub async fn run(args: ShowArgs, session: &Session) -> Result<Exit, Problem> {
    let mut page = session.page();
    let known = look(&args.id, &page, session).await?;
    if session.json() {
        session.screen.print_json(&wire::JobPage {
            job: wire::Job::with_key(&known.job, known.key.as_ref()),
            why: known.reasons.iter().map(|reason| reason.says.clone()).collect(),
            attempts: known.attempts.iter().map(wire::Attempt::from).collect(),
            steps: known.steps.iter().map(wire::Step::from).collect(),
            logs: known.log.iter().filter_map(wire::LogLine::of).collect(),
            absorbed: known.absorbed.items.iter().map(wire::LedgerEntry::from).collect(),
        })?;
        return Ok(Exit::Done);
    }
    let job = &known.job;
    page.line(format!(
        "{} {}  {}",
        paint(Tone::Strong, "job"),
        job.id,
        paint(state_tone(job.state), job.state.word())
    ));
    for reason in &known.reasons {
        page.say(&reason.says);
        if let Some(hint) = &reason.hint {
            page.hint(hint);
        }
    }
    page.blank();
    page.fields(facts(&known, &page));
    sections::payloads(job, &mut page);
    sections::attempts(&known.attempts, &mut page);
    sections::steps(&known.steps, &mut page);
    sections::log(&known.log, &mut page);
    sections::absorbed(&known.absorbed, &mut page);
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

async fn look(id: &JobId, page: &Page, session: &Session) -> Result<Known, Problem> {
    let client = session.existing().await?;
    let store = client.store();
    let found = store.jobs_by_id(std::slice::from_ref(id)).await?;
    let Some(mut job) = found.into_iter().next().flatten() else {
        return Err(Problem::not_found(format!("there is no job {id}"))
            .hint("semel jobs list shows the newest; ended jobs are kept for some days only"));
    };
    redact::job(&mut job, &session.settings.file.redact);
    let key = match &job.key {
        Some(key) => store.key(key.digest).await?,
        None => None,
    };
    let attempts = store.attempts(id).await?;
    let mut steps = store.list_steps(StepFilter::Origin(job.origin.clone())).await?;
    for step in &mut steps {
        redact::step(step, &session.settings.file.redact);
    }
    let mut log = store.feed(&log_feed(id), StorePage::first(RECENT)).await?.items;
    log.reverse();
    let ledger = LedgerFilter {
        holder: Some(id.clone()),
        ..LedgerFilter::default()
    };
    let mut absorbed = store.ledger(ledger, StorePage::first(RECENT)).await?;
    for entry in &mut absorbed.items {
        redact::entry(entry, &session.settings.file.redact);
    }
    let settings = store.settings().await?;
    let live = LiveWorkers::look(&client).await?;
    let reasons = Case {
        job: &job,
        attempts: &attempts,
        settings: &settings,
        workers: live.serving_in(&job.task, &job.queue),
        now: page.now(),
    }
    .reasons();
    Ok(Known {
        job,
        key,
        attempts,
        steps,
        log,
        absorbed,
        reasons,
    })
}

fn facts(known: &Known, page: &Page) -> Vec<(&'static str, String)> {
    let job = &known.job;
    let mut fields = vec![
        (
            "task",
            format!(
                "{} in queue {}",
                clean(job.task.as_str()),
                clean(job.queue.as_str())
            ),
        ),
        ("submitted", submitted(job, page)),
    ];
    if job.run_at != job.enqueued_at {
        fields.push(("run at", page.when(job.run_at)));
    }
    if let Some(at) = job.started_at {
        fields.push(("first started", page.when(at)));
    }
    if let Some(at) = job.finished_at {
        fields.push(("ended", page.when(at)));
    }
    fields.push(("attempts", tries(job)));
    if job.priority != 0 {
        fields.push(("priority", job.priority.to_string()));
    }
    if let Some(timeout) = job.timeout {
        fields.push(("timeout", span(timeout)));
    }
    if let Some(progress) = job.progress {
        fields.push(("progress", format!("{:.0} %", progress * 100.0)));
    }
    fields.extend(key_fields(known));
    if job.origin != job.id {
        fields.push(("origin", job.origin.to_string()));
    }
    if let Some(from) = &job.replayed_from {
        fields.push(("replays", from.to_string()));
    }
    if let Some(error) = &job.error {
        fields.push(("last error", paint(Tone::Bad, one_line(&error.message))));
    }
    for (name, value) in &job.headers {
        fields.push(("header", format!("{}={}", clean(name), clean(value))));
    }
    fields
}

fn submitted(job: &Job, page: &Page) -> String {
    let when = page.when(job.enqueued_at);
    match &job.producer {
        Some(producer) => format!("{when} by {}", clean(producer.as_str())),
        None => when,
    }
}

fn tries(job: &Job) -> String {
    let mut text = format!("{} of {}", job.attempt, job.max_attempts);
    if job.deliveries > 0 {
        text.push_str(&format!(
            "; {} of {} leases expired",
            job.deliveries, job.max_deliveries
        ));
    }
    text
}

fn key_fields(known: &Known) -> Vec<(&'static str, String)> {
    let Some(key) = &known.job.key else {
        return Vec::new();
    };
    let text = match &key.text {
        Some(text) => clean(text).into_owned(),
        None => format!("{} (by {})", keys::short(key.digest), key.by.word()),
    };
    let held = if key.held { "held" } else { "free" };
    let mut fields = vec![("key", format!("{text}, {held}, unique in {}", clean(&key.scope)))];
    fields.push(("kept", wording::hold(&key.hold)));
    if let Some(row) = &known.key
        && row.absorbed > 0
    {
        fields.push(("absorbed", plural(row.absorbed, "submission", "submissions")));
    }
    fields
}
