//! Answers of a server for people: lists as tables, one thing as its fields.

use semel_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::remote::To;
use crate::screen::{Column, Page, Table, Tone, clean, elide, one_line, paint, relative};

/// The columns of a list: a head and where its value is.
pub type Columns = &'static [(&'static str, &'static str)];

pub const JOBS: Columns = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("TASK", "/task"),
    ("QUEUE", "/queue"),
    ("KEY", "/key/text"),
    ("TRY", "/attempt"),
    ("SUBMITTED", "/enqueued_at"),
];
pub const KEYS: Columns = &[
    ("DIGEST", "/digest"),
    ("KEY", "/text"),
    ("TASK", "/holder/task"),
    ("HOLDER IS", "/holder/state"),
    ("ABSORBED", "/absorbed"),
    ("EXPIRES", "/expires_at"),
];
pub const LEDGER: Columns = &[
    ("WHEN", "/at"),
    ("OUTCOME", "/outcome"),
    ("PRODUCER", "/producer"),
    ("HOLDER", "/holder"),
    ("DIFFERED AT", "/differs"),
];
pub const LANES: Columns = &[
    ("NAME", "/name"),
    ("QUEUED", "/jobs/queued"),
    ("RUNNING", "/jobs/running"),
    ("COMPLETED", "/completed"),
    ("FAILED", "/failed"),
    ("ABSORBED", "/duplicates"),
    ("PAUSED SINCE", "/paused/since"),
    ("INTAKE", "/intake"),
];
pub const WORKERS: Columns = &[
    ("ID", "/id"),
    ("HOST", "/host"),
    ("TASKS", "/tasks"),
    ("RUNNING", "/running"),
    ("SLOTS", "/slots"),
    ("HEARD", "/heartbeat_at"),
];
pub const SCHEDULES: Columns = &[
    ("NAME", "/name"),
    ("CRON", "/cron"),
    ("ZONE", "/zone"),
    ("TASK", "/task"),
    ("NEXT", "/next_at"),
];
pub const SUBSCRIBERS: Columns = &[("EVENT", "/event"), ("TASK", "/task"), ("QUEUE", "/queue")];
pub const DELIVERIES: Columns = &[
    ("TASK", "/task"),
    ("OUTCOME", "/outcome"),
    ("JOB", "/job/id"),
    ("ERROR", "/error"),
];
pub const STEPS: Columns = &[
    ("ORIGIN", "/origin"),
    ("STEP", "/name"),
    ("STATE", "/state"),
    ("BEGUN", "/begun_at"),
    ("KEY", "/key"),
];
pub const TOKENS: Columns = &[
    ("ID", "/id"),
    ("NAME", "/name"),
    ("ROLES", "/roles"),
    ("CREATED", "/created_at"),
    ("EXPIRES", "/expires_at"),
];
pub const GROUPS: Columns = &[
    ("TASK", "/task"),
    ("ERROR", "/error"),
    ("JOBS", "/jobs"),
    ("NEWEST", "/newest_at"),
];
pub const GUARANTEES: Columns = &[("SUBJECT", "/subject"), ("STATEMENT", "/statement")];
pub const PARKED: Columns = &[
    ("EVENT", "/id"),
    ("TASK", "/task"),
    ("PARTITION", "/partition"),
    ("TRIED", "/attempts"),
    ("WHY", "/error"),
];
pub const SAMPLES: Columns = &[
    ("ID", "/id"),
    ("STATE", "/state"),
    ("TASK", "/task"),
    ("ERROR", "/error"),
];

impl To<'_> {
    /// Asks for a list and says it.
    pub async fn list(&self, path: &str, columns: Columns, none: &str) -> Result<Exit, Problem> {
        let found = self.server.get(path, &[]).await?;
        self.say_list(&found, columns, none)
    }

    /// Says a list.
    pub fn say_list(&self, found: &Value, columns: Columns, none: &str) -> Result<Exit, Problem> {
        self.say(found, |page| {
            rows(page, &found["items"], columns, none);
            if let Some(cursor) = found["next_cursor"].as_str() {
                page.blank();
                page.line(paint(
                    Tone::Quiet,
                    format!("There are more: add --cursor {cursor}"),
                ));
            }
        })
    }

    /// Says one thing by its fields.
    pub fn say_fields(&self, found: &Value) -> Result<Exit, Problem> {
        self.say(found, |page| fields(page, found))
    }

    /// Says a sentence, or the answer to a machine.
    pub fn say_that(&self, answer: &Value, sentence: &str) -> Result<Exit, Problem> {
        self.say(answer, |page| page.say(clean(sentence)))
    }

    /// Says an answer: to a machine as it came, to a person as `fill` puts it.
    pub fn say(&self, answer: &Value, fill: impl FnOnce(&mut Page)) -> Result<Exit, Problem> {
        if self.session.json() {
            self.session.screen.print_json(answer)?;
            return Ok(Exit::Done);
        }
        let mut page = self.session.screen.page_of("server", self.server.url());
        fill(&mut page);
        self.session.screen.print(&page)?;
        Ok(Exit::Done)
    }
}

/// Rows of a list on a page.
pub fn rows(page: &mut Page, items: &Value, columns: Columns, none: &str) {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        page.say(none);
        return;
    }
    let mut table = Table::new(columns.iter().map(|(head, _)| match *head {
        "ID" | "STATE" | "DIGEST" => Column::left(head),
        _ => Column::wide(head),
    }));
    for item in items {
        table.row(columns.iter().map(|(head, at)| {
            let said = word(item.pointer(at).unwrap_or(&Value::Null), page);
            match *head {
                "DIGEST" => said.chars().take(12).collect(),
                "ID" => said,
                _ => elide(&said, 60),
            }
        }));
    }
    page.table(&table);
}

/// Every field of a thing, the inner ones under their whole name.
pub fn fields(page: &mut Page, thing: &Value) {
    let mut table = Table::new([Column::left("FIELD"), Column::wide("VALUE")]);
    let mut flat = Vec::new();
    flatten(thing, String::new(), &mut flat);
    for (name, value) in flat {
        table.row([Table::cell(name), word(&value, page)]);
    }
    page.table(&table);
}

fn flatten(value: &Value, name: String, flat: &mut Vec<(String, Value)>) {
    let inner = |part: &str| match name.is_empty() {
        true => part.to_owned(),
        false => format!("{name}.{part}"),
    };
    match value {
        // What users wrote stays in one piece.
        Value::Object(members) if !matches!(name.as_str(), "input" | "output" | "meta") => {
            let members: &Map<String, Value> = members;
            members
                .iter()
                .for_each(|(part, value)| flatten(value, inner(part), flat));
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items
                .iter()
                .enumerate()
                .for_each(|(n, value)| flatten(value, inner(&n.to_string()), flat));
        }
        _ => flat.push((name, value.clone())),
    }
}

/// A value in a cell: moments from now, lists with commas.
fn word(value: &Value, page: &Page) -> String {
    let said = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => match moment(text) {
            Some(at) => relative(at, page.now()),
            None => one_line(text),
        },
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            words.join(", ")
        }
        other => other.to_string(),
    };
    Table::cell(said)
}

fn moment(text: &str) -> Option<Timestamp> {
    let looks = text.len() >= 20 && text.as_bytes()[4] == b'-' && text.ends_with('Z');
    looks.then(|| crate::duration::rfc3339(text).ok()).flatten()
}
