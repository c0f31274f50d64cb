//! The answer to a submission, said.

use semel::{Client, Error};
use semel_core::job::{Outcome, State};
use semel_core::store::{Admitted, Explanation, Submitted};
use semel_core::view::HolderView;

use crate::commands::submit::request::RequestArgs;
use crate::exit::Exit;
use crate::live::LiveWorkers;
use crate::problem::Problem;
use crate::screen::{Page, Tone, clean, exact, operand, paint, relative};
use crate::session::Session;
use crate::{clock, wire, wording};

/// Says what became of a submission.
pub async fn admitted(
    admitted: &Admitted,
    quiet: bool,
    client: &Client,
    session: &Session,
) -> Result<Exit, Problem> {
    let answer = Submitted::Job(Box::new(admitted.clone()));
    if session.json() {
        let row = match admitted.key {
            Some(digest) => client.store().key(digest).await?,
            None => None,
        };
        let answer = wire::Answer::of(&answer).map(|answer| answer.with_key(row.as_ref()));
        session.screen.print_json(&answer)?;
        return Ok(Exit::Done);
    }
    if quiet {
        session.screen.write(&format!("{}\n", admitted.job.id))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    page.line(sentence(admitted));
    for remark in remarks(admitted) {
        page.say(remark);
    }
    if matches!(admitted.job.state, State::Queued | State::Scheduled) {
        let live = LiveWorkers::look(client).await?;
        let job = client.job(admitted.job.id.clone())?.job().await?;
        if let Some(hint) = live.hint([(&job.task, &job.queue)]) {
            page.hint(hint);
        }
    }
    if admitted.outcome == Outcome::Duplicate && admitted.job.state == State::Failed {
        page.hint(format!(
            "the job that holds this key has failed: semel jobs retry {}",
            operand(admitted.job.id.as_str())
        ));
    }
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

/// One line: the outcome, the job, where it stands.
pub fn sentence(admitted: &Admitted) -> String {
    let job = &admitted.job;
    let tone = if admitted.outcome == Outcome::Accepted {
        Tone::Good
    } else {
        Tone::Warn
    };
    format!(
        "{} {} {}",
        paint(tone, admitted.outcome.word()),
        job.id,
        about(job)
    )
}

fn about(job: &HolderView) -> String {
    let when = relative(job.enqueued_at, clock::now());
    format!(
        "({}, {}, submitted {when})",
        clean(job.task.as_str()),
        job.state.word()
    )
}

fn remarks(admitted: &Admitted) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(would) = &admitted.would {
        remarks.push(format!(
            "The policy only observes: enforced, the answer would have been `{}`, because of job {}.",
            would.outcome.word(),
            would.holder
        ));
    }
    if let Some(other) = &admitted.collides_with {
        remarks.push(format!(
            "It has the same key fields as job {other} but another input."
        ));
    }
    remarks
}

/// What an error of a submission means here; an answer of the closed set is also said to machines.
pub fn refused(error: Error, session: &Session) -> Result<Problem, Problem> {
    if session.json() {
        let answer = match &error {
            Error::Duplicate { holder } => Some(Submitted::Rejected {
                holder: holder.clone(),
            }),
            Error::IdempotencyConflict { holder, differs } => Some(Submitted::Conflict {
                holder: holder.clone(),
                differs: differs.clone(),
            }),
            _ => None,
        };
        if let Some(answer) = answer {
            session.screen.print_json(&wire::Answer::of(&answer))?;
        }
    }
    Ok(error.into())
}

/// Says what a submission would get, and with `why` also for what reason. Writes nothing.
pub async fn rehearse(request: RequestArgs, why: bool, session: &Session) -> Result<Exit, Problem> {
    let prepared = request.prepare(session)?;
    let client = session.existing().await?;
    let foreseen = prepared.build(&client)?.explain().await?;
    let exit = foreseen_exit(&foreseen)?;
    if session.json() {
        session.screen.print_json(&wire::Explanation::of(&foreseen))?;
        return Ok(exit);
    }
    let mut page = session.page();
    page.say(foreseen_sentence(&foreseen));
    if why {
        explain(&foreseen, &mut page);
    }
    session.screen.print(&page)?;
    Ok(exit)
}

fn foreseen_exit(foreseen: &Explanation) -> Result<Exit, Problem> {
    match &foreseen.submitted {
        Submitted::Job(_) => Ok(Exit::Done),
        Submitted::Rejected { .. } => Ok(Exit::Rejected),
        Submitted::Conflict { .. } => Ok(Exit::Conflict),
        Submitted::Invalid(invalid) => Err(invalid.clone().into()),
        Submitted::Closed { target } => Err(Error::Closed {
            target: target.clone(),
        }
        .into()),
    }
}

fn foreseen_sentence(foreseen: &Explanation) -> String {
    let holder = foreseen.holder.as_ref().map(|(holder, _)| holder);
    match (foreseen.submitted.outcome(), holder) {
        (Some(Outcome::Accepted), Some(holder)) => format!(
            "It would be accepted, although job {} holds its key: the policy only observes, or that job does.",
            holder.id
        ),
        (Some(Outcome::Accepted), None) if foreseen.key.is_none() => {
            "It would be accepted: it has no key, so nothing can be its duplicate.".to_owned()
        }
        (Some(Outcome::Accepted), None) => "It would be accepted: nobody holds its key.".to_owned(),
        (Some(outcome), Some(holder)) => {
            format!(
                "It would be {}: job {} {}.",
                as_adjective(outcome),
                holder.id,
                about(holder)
            )
        }
        (Some(outcome), None) => format!("It would be {}.", as_adjective(outcome)),
        (None, _) => "It would be refused.".to_owned(),
    }
}

fn as_adjective(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted => "accepted",
        Outcome::Duplicate => "a duplicate of the job that holds its key",
        Outcome::Replaced => "put into the job that holds its key, which has not started",
        Outcome::Debounced => "put into the job that holds its key, and start later",
        Outcome::Deferred => "deferred until the job that holds its key has ended",
        Outcome::Spooled => "spooled",
        Outcome::Rejected => "rejected, because its key is held",
        Outcome::Conflict => "a conflict, because its key means something else",
    }
}

fn explain(foreseen: &Explanation, page: &mut Page) {
    let Some(key) = &foreseen.key else { return };
    let text = key
        .text
        .as_ref()
        .map_or_else(|| "-".to_owned(), |text| clean(text).into_owned());
    let mut fields = vec![
        ("key", text),
        ("made from", wording::made_from(key.by).to_owned()),
        ("unique in", clean(&key.scope).into_owned()),
        ("digest", key.digest.to_string()),
    ];
    if let Some((holder, held)) = &foreseen.holder {
        fields.push(("held by", format!("{} {}", holder.id, about(holder))));
        fields.push(("held for", wording::hold(&held.hold)));
        fields.push(("since", page.when(held.taken_at)));
    }
    if let Submitted::Conflict { differs, .. } = &foreseen.submitted {
        fields.push(("differs at", wording::differs(differs)));
    }
    if foreseen.submitted.outcome() != Some(Outcome::Accepted) {
        fields.push(("free", admissible(foreseen, page)));
    }
    page.blank();
    page.fields(fields);
}

fn admissible(foreseen: &Explanation, page: &Page) -> String {
    match foreseen.admissible_at {
        Some(at) => format!("{} ({})", page.ago(at), exact(at)),
        None => "when that job ends, or its key is released".to_owned(),
    }
}
