//! A key's life: who took it, what it absorbed for them, who freed it. The newest comes first.

use std::collections::HashMap;

use maud::{Markup, html};
use semel::KeyRelease;
use semel_core::dedup::Hold;
use semel_core::ids::JobId;
use semel_core::store::{LedgerFilter, Page};
use semel_core::time::Timestamp;
use semel_core::view::{HolderView, Job, KeyRow, LedgerEntry};

use crate::app::App;
use crate::pages::parts::{self, holder, when};
use crate::problem::Problem;
use crate::text::pretty_json;
use crate::{redact, wording};

/// A part of a key's life, one owner after the other.
pub struct Life {
    owners: Vec<Owner>,
    /// Where the part before it begins.
    pub next_cursor: Option<String>,
}

/// The time for which one job had the key.
struct Owner {
    id: JobId,
    /// `None`: the job is no longer kept.
    taken: Option<Taken>,
    held: bool,
    released: Option<KeyRelease>,
    absorbed: Vec<LedgerEntry>,
    /// Whether its beginning is in this part.
    begins_here: bool,
    /// Whether its end may be in the part after this one.
    ends_later: bool,
}

struct Taken {
    at: Timestamp,
    by: HolderView,
    hold: Hold,
}

/// Reads a part of it.
pub async fn read(app: &App, row: &KeyRow, page: Page) -> Result<Life, Problem> {
    let store = app.client.store();
    let filter = LedgerFilter {
        digest: Some(row.key.digest),
        ..LedgerFilter::default()
    };
    let is_first = page.cursor.is_none();
    let ledger = store.ledger(filter.clone(), page).await?;
    let mut owners: Vec<Owner> = Vec::new();
    if is_first {
        owners.push(Owner {
            held: row.key.held,
            ..Owner::new(row.holder.id.clone())
        });
    }
    let newest = ledger.items.first().map(|entry| entry.at);
    for mut entry in ledger.items {
        redact::entry(&mut entry, &app.settings.redact);
        // Who had it twice is told of twice.
        match owners.last_mut().filter(|owner| owner.id == entry.holder) {
            Some(owner) => owner.absorbed.push(entry),
            None => owners.push(Owner {
                absorbed: vec![entry.clone()],
                ..Owner::new(entry.holder)
            }),
        }
    }
    if let (false, Some(first)) = (is_first, owners.first_mut()) {
        first.ends_later = true;
    }
    // The entry before this part says whose the key was then.
    let before = match &ledger.next_cursor {
        Some(cursor) => store.ledger(filter, Page::after(cursor, 1)).await?.items.pop(),
        None => None,
    };
    if let (Some(_), Some(last)) = (&ledger.next_cursor, owners.last_mut()) {
        last.begins_here = before.as_ref().is_some_and(|entry| entry.holder != last.id);
    }
    look_up(app, row, &mut owners).await?;
    for release in app.client.releases(row.key.digest).await? {
        let is_of = |owner: &&mut Owner| owner.released.is_none() && owner.ended_by(&release);
        if let Some(owner) = owners.iter_mut().find(is_of) {
            owner.released = Some(release);
            continue;
        }
        // It absorbed nothing, so only the record knows of it.
        let is_here = (is_first || newest.is_some_and(|newest| release.at <= newest))
            && before
                .as_ref()
                .is_none_or(|entry| entry.at < release.at && entry.holder != release.holder);
        if is_here {
            let place = owners.iter().position(|owner| owner.began() < Some(release.at));
            let owner = Owner {
                released: Some(release.clone()),
                ..Owner::new(release.holder)
            };
            owners.insert(place.unwrap_or(owners.len()), owner);
        }
    }
    look_up(app, row, &mut owners).await?;
    Ok(Life {
        owners,
        next_cursor: ledger.next_cursor,
    })
}

/// Finds when owners took the key. What a job says is true of the last time it did.
async fn look_up(app: &App, row: &KeyRow, owners: &mut [Owner]) -> Result<(), Problem> {
    let ids: Vec<JobId> = owners.iter().map(|owner| owner.id.clone()).collect();
    let jobs = app.client.store().jobs_by_id(&ids).await?.into_iter().flatten();
    let mut jobs: HashMap<JobId, Job> = jobs.map(|job| (job.id.clone(), job)).collect();
    for owner in owners {
        let job = jobs.remove(&owner.id);
        if owner.taken.is_some() {
            continue;
        }
        let key = job.as_ref().and_then(|job| job.key.as_ref());
        let key = key.filter(|key| key.digest == row.key.digest && owner.may_have_begun(key.taken_at));
        owner.taken = key.zip(job.as_ref()).map(|(key, job)| Taken {
            at: key.taken_at,
            by: HolderView {
                id: job.id.clone(),
                task: job.task.clone(),
                state: job.state,
                enqueued_at: job.enqueued_at,
            },
            hold: key.hold,
        });
        if owner.taken.is_none() && owner.id == row.holder.id && owner.may_have_begun(row.key.taken_at) {
            owner.taken = Some(Taken {
                at: row.key.taken_at,
                by: row.holder.clone(),
                hold: row.key.hold,
            });
        }
    }
    Ok(())
}

impl Owner {
    fn new(id: JobId) -> Self {
        Owner {
            id,
            taken: None,
            held: false,
            released: None,
            absorbed: Vec::new(),
            begins_here: true,
            ends_later: false,
        }
    }

    fn may_have_begun(&self, at: Timestamp) -> bool {
        self.absorbed.last().is_none_or(|entry| at <= entry.at)
            && self.released.as_ref().is_none_or(|release| at <= release.at)
    }

    fn ended_by(&self, release: &KeyRelease) -> bool {
        !self.held
            && self.id == release.holder
            && self.absorbed.first().is_none_or(|entry| entry.at <= release.at)
            && self.taken.as_ref().is_none_or(|taken| taken.at <= release.at)
    }

    /// The earliest that is known of it.
    fn began(&self) -> Option<Timestamp> {
        let taken = self.taken.as_ref().map(|taken| taken.at);
        taken.or_else(|| self.absorbed.last().map(|entry| entry.at))
    }
}

impl Life {
    /// The list.
    pub fn show(&self, now: Timestamp) -> Markup {
        html! { ol.life reversed { @for owner in &self.owners { (owner.show(now)) } } }
    }
}

impl Owner {
    fn show(&self, now: Timestamp) -> Markup {
        html! {
            @if let Some(release) = &self.released {
                li { b { "Released" } " " (when(release.at, now)) @if let Some(id) = &release.operation { " in " a href={ "/operations/" (parts::path(id)) } { "a bulk act" } } " by " b { (release.actor) } @if let Some(reason) = &release.reason { ": " (reason) } }
            } @else if let Some(taken) = self.taken.as_ref().filter(|_| !self.held && !self.ends_later) {
                li { b { "Let go" } ": it was to be kept " (wording::hold(&taken.hold)) }
            }
            @for entry in &self.absorbed { li { (absorbed(entry, now)) } }
            @if self.begins_here {
                li { b { "Taken" } @match &self.taken { Some(taken) => { " " (when(taken.at, now)) " by " (holder(&taken.by)) } None => { " by " (parts::job(self.id.as_str())) ", which no longer says when" } } }
            }
        }
    }
}

fn absorbed(entry: &LedgerEntry, now: Timestamp) -> Markup {
    html! {
        span class={ "state " (entry.outcome.word()) } { (entry.outcome.word()) } " " (when(entry.at, now))
        " from " @match &entry.producer { Some(name) => { b { (name) } } None => { "an unnamed producer" } }
        " (" (entry.policy) ") → " (parts::job(entry.holder.as_str()))
        @if !entry.differs.is_empty() { " – differed at " code { (wording::differs(&entry.differs)) } }
        @if let Some(input) = &entry.input { details { summary { "its input" } pre { (pretty_json(input.as_str())) } } }
    }
}
