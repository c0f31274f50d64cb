//! The sections below the facts of a job.

use semel_core::lifecycle::AttemptResult;
use semel_core::store::FeedEntry;
use semel_core::view::{AttemptView, Job, LedgerEntry, Listing, StepView};

use crate::commands::{keys, steps};
use crate::screen::{
    Column, Page, Table, Tone, clean, count, elide, exact, one_line, paint, pretty_json, relative, span,
};

/// What went in and what came out.
pub fn payloads(job: &Job, page: &mut Page) {
    if job.stub {
        page.blank();
        page.say("Only a stub is left: input, headers and metadata are no longer kept.");
        return;
    }
    let named = [
        ("Input", Some(&job.input)),
        ("Output", job.output.as_ref()),
        ("Meta", job.meta.as_ref()),
    ];
    for (name, json) in named {
        let Some(json) = json else { continue };
        page.heading(name);
        let text = json.as_str();
        let shown = match text.chars().count() + 2 <= page.width() && !text.contains('\n') {
            true => text.to_owned(),
            false => pretty_json(text),
        };
        for line in shown.lines() {
            page.line(format!("  {}", clean(line)));
        }
    }
}

/// Deliveries that have ended.
pub fn attempts(attempts: &[AttemptView], page: &mut Page) {
    if attempts.is_empty() {
        return;
    }
    page.heading("Attempts");
    let mut table = Table::new([
        Column::right("#"),
        Column::left("RESULT"),
        Column::left("WHEN"),
        Column::right("TOOK"),
        Column::wide("WORKER"),
        Column::wide("ERROR"),
    ]);
    for attempt in attempts {
        let end = &attempt.end;
        let took = end
            .began_at
            .map_or_else(|| "-".to_owned(), |began| span(end.ended_at.since(began)));
        let worker = attempt.worker.as_ref().map_or("-", |worker| worker.as_str());
        table.row([
            end.attempt.to_string(),
            paint(result_tone(end.result), crate::wording::ended(end.result)),
            relative(end.ended_at, page.now()),
            took,
            Table::cell(elide(worker, 24)),
            one_line(end.error.as_deref().unwrap_or_default()),
        ]);
    }
    page.table(&table);
}

/// Effects on the world outside.
pub fn steps(found: &[StepView], page: &mut Page) {
    if found.is_empty() {
        return;
    }
    page.heading("Steps");
    page.table(&steps::of_a_job(found, page));
}

fn result_tone(result: AttemptResult) -> Tone {
    match result {
        AttemptResult::Complete => Tone::Good,
        AttemptResult::Error | AttemptResult::Expired | AttemptResult::Parked => Tone::Warn,
        AttemptResult::Failed => Tone::Bad,
        AttemptResult::Snoozed | AttemptResult::HandedBack | AttemptResult::Cancelled => Tone::Quiet,
    }
}

/// What the handler wrote.
pub fn log(lines: &[FeedEntry], page: &mut Page) {
    if lines.is_empty() {
        return;
    }
    page.heading("Log");
    for entry in lines {
        let text: String = entry.body.read().unwrap_or_else(|_| entry.body.to_string());
        page.line(format!(
            "  {}  {}",
            paint(Tone::Quiet, exact(entry.at)),
            one_line(&text)
        ));
    }
}

/// Whom it blocked.
pub fn absorbed(absorbed: &Listing<LedgerEntry>, page: &mut Page) {
    let entries = &absorbed.items;
    if entries.is_empty() {
        return;
    }
    page.heading("Absorbed by this job");
    page.table(&keys::ledger_table(entries, false, page));
    if absorbed.next_cursor.is_some() {
        let digest = keys::short(entries[0].digest);
        page.line(paint(
            Tone::Quiet,
            format!(
                "The newest {}; all: semel keys show {digest}",
                count(entries.len() as i64)
            ),
        ));
    }
}
