//! Values that `redact` in `semel.toml` names are not shown, to people or machines.

use std::collections::BTreeMap;

use semel::schedule::ScheduleView;
use semel_core::json::Json;
use semel_core::view::{Job, LedgerEntry, StepView};
use serde_json::Value;

const HIDDEN: &str = "***";

/// Refuses what is no JSON pointer: it would hide nothing, without a word.
pub fn check(pointer: &str) -> Result<(), String> {
    let parts = || pointer.split('/').skip(1);
    let is_escaped = |part: &str| part.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if parts().any(|part| part == "*" || part == "**") {
        return Err(format!(
            "redact: {pointer:?} names one place and not several: there is no *; name each place, or the object or list that holds them"
        ));
    }
    match (pointer.is_empty() || pointer.starts_with('/')) && parts().all(is_escaped) {
        true => Ok(()),
        false => Err(format!(
            "redact: {pointer:?} is no JSON pointer: allowed is a path such as /card/number, with ~0 for ~ and ~1 for /"
        )),
    }
}

/// Hides values in a job.
pub fn job(job: &mut Job, pointers: &[String]) {
    hide(&mut job.input, pointers);
    for json in [&mut job.output, &mut job.meta].into_iter().flatten() {
        hide(json, pointers);
    }
    hide_headers(&mut job.headers, pointers);
}

/// Hides values in the input of a schedule.
pub fn schedule(view: &mut ScheduleView, pointers: &[String]) {
    hide(&mut view.schedule.input, pointers);
    hide_headers(&mut view.schedule.headers, pointers);
}

/// Hides values in the output of a step.
pub fn step(step: &mut StepView, pointers: &[String]) {
    if let Some(output) = &mut step.output {
        hide(output, pointers);
    }
}

/// Hides values in an entry of the ledger.
pub fn entry(entry: &mut LedgerEntry, pointers: &[String]) {
    if let Some(input) = &mut entry.input {
        hide(input, pointers);
    }
}

/// A header is a member of an object without depth.
fn hide_headers(headers: &mut BTreeMap<String, String>, pointers: &[String]) {
    for (name, value) in headers {
        let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        if pointers.contains(&pointer) {
            *value = HIDDEN.to_owned();
        }
    }
}

fn hide(json: &mut Json, pointers: &[String]) {
    if pointers.is_empty() {
        return;
    }
    let Ok(mut value) = json.read::<Value>() else {
        // Where nothing can be found nothing is shown.
        *json = Json::trusted(Value::from(HIDDEN).to_string());
        return;
    };
    let mut changed = false;
    for pointer in pointers {
        if let Some(found) = value.pointer_mut(pointer) {
            *found = HIDDEN.into();
            changed = true;
        }
    }
    if changed {
        *json = Json::trusted(value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_hide_nothing_is_refused() {
        for good in ["", "/card", "/cards/0/number", "/a~1b/c~0d", "/a*", "/"] {
            assert_eq!(check(good), Ok(()));
        }
        for bad in ["card", "card/number", "/a/*/b", "/**", "/a~b", "/a~", "$.card"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn named_values_are_hidden_and_nothing_else_changes() {
        let mut json = Json::new(r#"{"b": 1.0, "card":{"number":"4111"}}"#).unwrap();
        hide(&mut json, &["/nothing".to_owned()]);
        assert_eq!(json.as_str(), r#"{"b": 1.0, "card":{"number":"4111"}}"#);
        hide(&mut json, &["/card/number".to_owned()]);
        assert_eq!(json.as_str(), r#"{"b":1.0,"card":{"number":"***"}}"#);
        let mut headers = BTreeMap::from(["a/b", "other"].map(|name| (name.to_owned(), "4111".to_owned())));
        hide_headers(&mut headers, &["/a~1b".to_owned()]);
        assert_eq!(headers.into_values().collect::<Vec<_>>(), ["***", "4111"]);
    }
}
