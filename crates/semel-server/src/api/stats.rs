//! Counters now and in the past, as JSON or CSV.

use axum::Extension;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use semel_core::counters::{Counter, Counts};
use semel_core::error::Invalid;
use semel_core::time::Millis;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::{Reply, Why, ok};
use crate::app::App;
use crate::ask::{Asked, MaybeSaid};
use crate::role::Caller;
use crate::{lanes, wire};

/// In which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// JSON.
    #[default]
    Json,
    /// Comma-separated values, one row per queue and task, or per snapshot.
    Csv,
}

/// In which form.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct StatsQuery {
    /// json (the default) or csv.
    #[param(inline)]
    format: Option<Format>,
}

/// `GET /v1/stats`
pub async fn show(State(app): State<App>, Asked(query): Asked<StatsQuery>) -> Reply {
    let stats = app.stats().await?;
    if query.format == Some(Format::Csv) {
        let total = [("store", "".to_owned(), stats.totals)];
        let queues = lanes::by_queue(&stats.lanes);
        let tasks = lanes::by_task(&stats.lanes);
        let queues = queues
            .iter()
            .map(|sum| ("queue", sum.name.to_string(), sum.counts));
        let tasks = tasks.iter().map(|sum| ("task", sum.name.to_string(), sum.counts));
        let rows = total.into_iter().chain(queues).chain(tasks);
        let rows = rows.map(|(kind, name, counts)| (vec![kind.to_owned(), name], counts));
        return Ok(csv(&["kind", "name"], rows));
    }
    ok(&wire::Stats::from(&*stats))
}

/// How far back, and in which form.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// How far back; a day where nothing is said, at most 30 days.
    window_ms: Option<i64>,
    /// json (the default) or csv.
    #[param(inline)]
    format: Option<Format>,
}

/// `GET /v1/stats/history`
pub async fn history(State(app): State<App>, Asked(query): Asked<HistoryQuery>) -> Reply {
    let window = query.window_ms.unwrap_or(Millis::from_days(1).as_millis());
    if !(1..=Millis::from_days(30).as_millis()).contains(&window) {
        return Err(Invalid::new("window_ms", "1 to 2592000000, which is 30 days").into());
    }
    let found = app.client.store().history(Millis::new(window)).await?;
    if query.format == Some(Format::Csv) {
        let rows = found
            .iter()
            .map(|snapshot| (vec![snapshot.at.to_string()], snapshot.counts));
        return Ok(csv(&["at"], rows));
    }
    ok(&wire::List::whole(found.iter().map(wire::Snapshot::from)))
}

/// From when the counters count.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResetAnswer {
    /// Since when.
    since: wire::Moment,
}

/// `POST /v1/stats/reset`
pub async fn reset(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    MaybeSaid(why): MaybeSaid<Why>,
) -> Reply {
    let since = app.operator(&caller, why.reason.as_deref()).reset_stats().await?;
    app.look_again().await;
    ok(&ResetAnswer { since: since.into() })
}

fn csv(heads: &[&str], rows: impl Iterator<Item = (Vec<String>, Counts)>) -> axum::response::Response {
    let counters = Counter::ALL.map(Counter::word);
    let mut text = heads
        .iter()
        .chain(&counters)
        .chain(&["duplicates", "hit_ratio"])
        .copied()
        .collect::<Vec<_>>()
        .join(",");
    text.push_str("\r\n");
    for (names, counts) in rows {
        let numbers = Counter::ALL.map(|counter| counts.get(counter).to_string());
        let fields: Vec<String> = names.iter().map(|name| field(name)).chain(numbers).collect();
        text.push_str(&fields.join(","));
        text.push_str(&format!(",{},{:.6}\r\n", counts.duplicates(), counts.hit_ratio()));
    }
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"semel.csv\""),
    ];
    (headers, text).into_response()
}

/// Quoted, and never a formula: a name that begins like one gets an apostrophe, as spreadsheets would run it.
fn field(text: &str) -> String {
    let guarded = match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    };
    format!("\"{}\"", guarded.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_table_is_never_a_formula() {
        assert_eq!(field("mail"), "\"mail\"");
        assert_eq!(field("a\"b"), "\"a\"\"b\"");
        assert_eq!(field("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
    }
}
