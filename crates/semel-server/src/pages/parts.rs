//! What several screens show alike.

use maud::{Markup, html};
use semel::{Operation, Status};
use semel_core::job::State;
use semel_core::time::Timestamp;
use semel_core::view::{HolderView, KeyView};

use crate::text::{elide, percent};
use crate::when::{exact, relative};

/// A state as a word with a colour; the word says it all.
pub fn state(state: State) -> Markup {
    html! { span class={ "state " (state.word()) } { (state.word()) } }
}

/// A moment, from now, with the exact one to hover.
pub fn when(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(exact(at)) { (relative(at, now)) } }
}

/// A moment ahead that is counted down.
pub fn until(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(exact(at)) data-until=(at.as_millis()) { (relative(at, now)) } }
}

/// A link to a job.
pub fn job(id: &str) -> Markup {
    html! { a.mono href={ "/jobs/" (path(id)) } title=(id) { (short(id)) } }
}

/// A link to the holder of a key, with its state.
pub fn holder(holder: &HolderView) -> Markup {
    html! { (job(holder.id.as_str())) " " (state(holder.state)) }
}

/// A link to a key: its text, else its digest.
pub fn key(view: &KeyView) -> Markup {
    let digest = view.digest.to_string();
    html! {
        a.mono href={ "/keys/" (digest) } title=(digest) {
            (match &view.text { Some(text) => elide(text, 60), None => short(&digest) })
        }
    }
}

/// The end of an id tells it from its neighbours; its beginning is the time.
pub fn short(id: &str) -> String {
    match id.char_indices().rev().nth(11) {
        Some((at, _)) if id.len() > 16 => format!("…{}", &id[at..]),
        _ => id.to_owned(),
    }
}

/// A name as a part of a path.
pub fn path(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().fold(String::new(), |mut path, byte| {
        match plain(byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
        path
    })
}

/// Where a bulk act stands.
pub fn standing(act: &Operation) -> Markup {
    let share = act.progress.seen() as f64 / act.total.max(1) as f64;
    html! {
        @match act.status {
            Status::Planned => { span.state { "planned: nothing was done yet" } }
            Status::Running => { span.state.running { "running" } " " (percent(share)) }
            Status::Done => { span.state.complete { "done" } }
            Status::Aborted => { span.state.parked { "aborted" } " at " (percent(share)) }
        }
    }
}

/// The same act as a command.
pub fn command(text: &str) -> Markup {
    html! { code.command { (text) } }
}

/// A form with one button and a reason, sent as JSON.
pub fn act(call: &str, label: &str, ask: Option<&str>, required: bool) -> Markup {
    html! {
        form.act data-call=(call) data-confirm=[ask] {
            input type="text" name="reason" placeholder="reason" aria-label={ "Reason: " (label) } required[required] maxlength="1000";
            button type="submit" { (label) }
            span.note role="status" {}
        }
    }
}

/// A link to the next page, with the filter kept.
pub fn next(base: &str, query: &[(&str, Option<&str>)], cursor: Option<&str>) -> Markup {
    let Some(cursor) = cursor else { return html! {} };
    let said = query.iter().filter_map(|(name, value)| {
        value
            .filter(|value| !value.is_empty())
            .map(|value| (*name, value))
    });
    let pairs: Vec<String> = said
        .chain([("cursor", cursor)])
        .map(|(name, value)| format!("{name}={}", path(value)))
        .collect();
    html! { p.next { a rel="next" href={ (base) "?" (pairs.join("&")) } { "Older →" } } }
}

/// What stands where a list is empty: as long as it goes on, nothing is known of what was not looked at yet.
pub fn none<'a>(cursor: Option<&str>, at_its_end: &'a str) -> &'a str {
    match cursor {
        Some(_) => "None among those looked at so far; Older looks further.",
        None => at_its_end,
    }
}

/// A table. A head that begins with `#` stands over numbers. On a phone rows are cards, three cells wide: a cell that
/// does not explain itself says in `data-head` what it is, one with the class `two` is twice as wide, one with `wide` has
/// a line of its own, and one with `late` stands behind the others.
pub fn table(heads: &[&str], rows: Vec<Markup>, none: &str) -> Markup {
    if rows.is_empty() {
        return html! { p.none { (none) } };
    }
    html! {
        div.scroll tabindex="0" {
            table.rows {
                thead { tr { @for head in heads { th.num[head.starts_with('#')] scope="col" { (head.trim_start_matches('#')) } } } }
                tbody { @for row in &rows { tr { (row) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_goes_on_does_not_say_that_there_is_none() {
        assert_eq!(none(None, "No job like that."), "No job like that.");
        assert_eq!(
            none(Some("next"), "No job like that."),
            "None among those looked at so far; Older looks further."
        );
    }
}
