//! `semel config`

use clap::Subcommand;
use serde::Serialize;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::{Column, Table, Tone, clean, paint, span};
use crate::session::Session;
use crate::settings::{self, Settings, Source};
use crate::wire;

/// `semel config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print each value and where it came from
    #[command(
        after_help = "Flags win over the environment, the environment over semel.toml. A path in\nsemel.toml is taken from where that file is."
    )]
    Show,
}

/// One value.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    value: String,
    source: String,
}

impl Row {
    fn new(name: impl Into<String>, value: impl Into<String>, source: &Source) -> Self {
        Row {
            name: name.into(),
            value: value.into(),
            source: source.to_string(),
        }
    }
}

/// Carries out a command.
pub fn run(command: ConfigCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        ConfigCommand::Show => show(session),
    }
}

fn show(session: &Session) -> Result<Exit, Problem> {
    let rows = rows(&session.settings);
    if session.json() {
        session.screen.print_json(&wire::List::whole(rows))?;
        return Ok(Exit::Done);
    }
    let mut page = session.page();
    let mut table = Table::new([Column::left("NAME"), Column::wide("VALUE"), Column::wide("FROM")]);
    for row in rows {
        let tone = if row.source == "default" {
            Tone::Quiet
        } else {
            Tone::Plain
        };
        table.row([
            row.name,
            clean(&row.value).into_owned(),
            paint(tone, clean(&row.source)),
        ]);
    }
    page.table(&table);
    session.screen.print(&page)?;
    Ok(Exit::Done)
}

/// Each value as it is shown: its name, the value, where it came from.
pub fn shown(settings: &Settings) -> Vec<(String, String, String)> {
    let each = rows(settings).into_iter();
    each.map(|row| {
        // A server is told everything by the request: what it shows must not look as if it took part.
        let of_commands = ["tasks.", "queues.", "profiles."];
        let note = match of_commands.iter().any(|part| row.name.starts_with(part)) {
            true => ", for commands on this machine: requests over HTTP say it themselves",
            false => "",
        };
        (row.name, row.value, row.source + note)
    })
    .collect()
}

fn rows(settings: &Settings) -> Vec<Row> {
    let mut rows = vec![Row::new("store", settings.shown_store(), &settings.store.source)];
    if let Some(server) = &settings.server {
        rows.push(Row::new("server", settings::shown(&server.value), &server.source));
    }
    if let Some(path) = &settings.path {
        rows.push(Row::new("config", path.value.display().to_string(), &path.source));
    }
    if let Some(profile) = &settings.profile {
        rows.push(Row::new("profile", profile.value.clone(), &profile.source));
    }
    match &settings.log {
        Some(log) => rows.push(Row::new("log", log.value.clone(), &log.source)),
        None => rows.push(Row::new("log", "off, for work and serve warn", &Source::Default)),
    }
    rows.extend(retention(settings));
    rows.extend(from_file(settings));
    rows
}

fn retention(settings: &Settings) -> [Row; 3] {
    let (said, kept) = (&settings.file.retention, settings.retention());
    let file = settings.file_source();
    let source = |said: bool| if said { file.clone() } else { Source::Default };
    [
        Row::new(
            "retention.complete",
            span(kept.complete),
            &source(said.complete.is_some()),
        ),
        Row::new(
            "retention.failed",
            span(kept.failed),
            &source(said.failed.is_some()),
        ),
        Row::new(
            "retention.ledger",
            span(kept.ledger),
            &source(said.ledger.is_some()),
        ),
    ]
}

/// Everything else has no default: it is shown if the file says it, in the file's own words.
fn from_file(given: &Settings) -> Vec<Row> {
    let Some(path) = &given.path else {
        return Vec::new();
    };
    let source = Source::File(path.value.clone());
    let mut rows = Vec::new();
    for (name, value) in given.file.values() {
        let known = ["store", "retention."].iter().any(|part| name.starts_with(part));
        if !known {
            let is_url = ["store", "server", "outbox"]
                .iter()
                .any(|end| name.ends_with(end));
            let value = match value.split_once('?') {
                // What a database is told there can be a password, too.
                Some((url, _)) if name.ends_with("outbox") => settings::shown(url),
                _ if is_url => settings::shown(&value),
                _ => value,
            };
            rows.push(Row::new(name, value, &source));
        }
    }
    rows
}
