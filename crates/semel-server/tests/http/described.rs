//! Answers against the OpenAPI document, and the document against the routes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Map, Value};

use crate::stage::{Answer, Stage, document};

/// Which route has been seen to answer with which status.
static SEEN: Mutex<BTreeSet<(String, String, u16)>> = Mutex::new(BTreeSet::new());

/// Which codes problems have been seen to have.
static CODES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The codes that were seen so far.
pub fn codes() -> BTreeSet<String> {
    CODES.lock().unwrap().clone()
}

/// What was seen so far.
pub fn seen() -> BTreeSet<(String, String, u16)> {
    SEEN.lock().unwrap().clone()
}

/// Notes an answer that was not read as a whole.
pub fn saw(method: &str, path: &str, status: u16) {
    let template = template(path.split('?').next().unwrap()).unwrap();
    SEEN.lock()
        .unwrap()
        .insert((method.to_ascii_lowercase(), template.to_owned(), status));
}

/// Whatever a server answers has to be in the document: the status, every member, its type.
#[track_caller]
pub fn check(method: &str, path: &str, answer: &Answer) {
    if let Some(code) = answer.json["code"].as_str() {
        CODES.lock().unwrap().insert(code.to_owned());
    }
    let path = path.split('?').next().unwrap();
    let Some(template) = template(path) else { return };
    let operation = &document()["paths"][template][method.to_ascii_lowercase()];
    if operation.is_null() {
        assert_eq!(answer.status, 405, "{method} {path} is not described: {answer:?}");
        return;
    }
    SEEN.lock()
        .unwrap()
        .insert((method.to_ascii_lowercase(), template.to_owned(), answer.status));
    let response = &operation["responses"][answer.status.to_string()];
    assert!(
        !response.is_null(),
        "{method} {template} does not describe {}: {answer:?}",
        answer.status
    );
    let content = response["content"].as_object();
    let Some((_, media)) = content.and_then(|content| content.iter().find(|(kind, _)| kind.contains("json")))
    else {
        return;
    };
    if !answer.json.is_null() && !matches!(&media["schema"]["type"], Value::String(kind) if kind == "string")
    {
        matches(
            &media["schema"],
            &answer.json,
            &format!("{method} {template} {}", answer.status),
        );
    }
}

fn template(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &&String| {
        let theirs: Vec<&str> = template.split('/').collect();
        theirs.len() == parts.len()
            && theirs
                .iter()
                .zip(&parts)
                .all(|(a, b)| a.starts_with('{') || a == b)
    };
    let paths = document()["paths"].as_object().unwrap();
    // A fixed part wins over a variable one.
    paths
        .keys()
        .filter(fits)
        .min_by_key(|template| template.matches('{').count())
        .map(String::as_str)
}

fn resolve(schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let name = reference.rsplit('/').next().unwrap();
            let found = &document()["components"]["schemas"][name];
            assert!(!found.is_null(), "{reference} is not in the document");
            resolve(found)
        }
        None => schema.clone(),
    }
}

/// All members of an object, those of its parts too.
fn members(schema: &Value) -> (Map<String, Value>, Vec<String>) {
    let schema = resolve(schema);
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let mut required: Vec<String> = schema["required"]
        .as_array()
        .map(|names| {
            names
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect()
        })
        .unwrap_or_default();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        let (more, needed) = members(part);
        properties.extend(more);
        required.extend(needed);
    }
    (properties, required)
}

#[track_caller]
fn matches(schema: &Value, value: &Value, place: &str) {
    let schema = resolve(schema);
    let (properties, required) = members(&schema);
    if !properties.is_empty() {
        let object = value
            .as_object()
            .unwrap_or_else(|| panic!("{place} is no object: {value}"));
        for name in &required {
            assert!(object.contains_key(name), "{place} lacks {name}: {value}");
        }
        for (name, member) in object {
            let Some(schema) = properties.get(name) else {
                panic!("{place}.{name} is not described: {value}")
            };
            matches(schema, member, &format!("{place}.{name}"));
        }
        return;
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(
            words.contains(value),
            "{place} is {value}, described are {words:?}"
        );
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        _ => return,
    };
    let fits = |kind: &&str| match *kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    assert!(
        kinds.iter().any(fits),
        "{place} is {value}, described is {kinds:?}"
    );
    for (n, item) in value.as_array().into_iter().flatten().enumerate() {
        matches(&schema["items"], item, &format!("{place}[{n}]"));
    }
}

#[test]
fn no_member_is_a_text_or_an_object_by_turns() {
    fn walk(value: &Value, place: &str) {
        match value {
            Value::Object(members) => {
                for word in ["oneOf", "anyOf"] {
                    assert!(!members.contains_key(word), "{place} is a union");
                }
                if let Some(Value::Array(kinds)) = members.get("type") {
                    let others = kinds.iter().filter(|kind| *kind != "null").count();
                    assert!(others <= 1, "{place} has several types: {kinds:?}");
                }
                if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                    resolve(&serde_json::json!({ "$ref": reference }));
                }
                members
                    .iter()
                    .for_each(|(name, member)| walk(member, &format!("{place}/{name}")));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, place)),
            _ => {}
        }
    }
    walk(document(), "");
}

#[test]
fn the_submission_in_the_document_is_the_one_that_is_read() {
    use semel::{DedupRequest, PeriodRequest, SubmitRequest};
    let input = semel_core::json::Json::null();
    let full = serde_json::json!({
        "task": "t", "input": 1, "token": "0190d5b2-7c1e-7a53-9f0e-3c1f0a5b6d7e", "queue": "q", "idempotency_key": "k",
        "idempotency_ttl_ms": 1, "idempotency_scope": "custom", "idempotency_scope_name": "n", "unique": true,
        "unique_for_ms": 1, "run_at": "x", "delay_ms": 1, "priority": 1, "max_attempts": 1, "max_deliveries": 1,
        "timeout_ms": 1, "headers": {"a": "b"}, "meta": {}, "producer": "p", "wait_ms": 1,
        "dedup": {"key": "k", "by": "fields", "pointers": ["/a"], "headers": ["h"], "meta": ["m"],
            "period": {"unit": "day", "zone": "UTC"}, "scope": "custom", "scope_name": "n", "hold": "window",
            "ttl_ms": 1, "cool_down_ms": 1, "release_on": ["failed"], "on_duplicate": "debounce", "debounce_ms": 1,
            "max_wait_ms": 1, "on_mismatch": "ignore", "mode": "observe"},
    });
    let read: SubmitRequest = serde_json::from_value(full.clone()).unwrap();
    let names = |value: &Value| {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    let of = |name: &str| names(&document()["components"]["schemas"][name]["properties"]);
    assert_eq!(names(&full), of("Submission"));
    assert_eq!(names(&serde_json::to_value(&read).unwrap()), of("Submission"));
    assert_eq!(names(&full["dedup"]), of("Dedup"));
    assert_eq!(names(&full["dedup"]["period"]), of("Period"));
    assert!(serde_json::from_value::<DedupRequest>(full["dedup"].clone()).is_ok());
    assert!(serde_json::from_value::<PeriodRequest>(full["dedup"]["period"].clone()).is_ok());
    assert_eq!(SubmitRequest::new("t", input).task, "t");
}

#[test]
fn words_of_the_document_are_those_of_core() {
    let words = |name: &str| -> Vec<String> {
        let schema = &document()["components"]["schemas"][name];
        schema["enum"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        words("State"),
        semel_core::job::State::ALL.map(semel_core::job::State::word)
    );
    assert_eq!(
        words("HoldKind"),
        semel_core::dedup::HoldKind::ALL.map(semel_core::dedup::HoldKind::word)
    );
    assert_eq!(
        words("Role"),
        semel_server::role::Role::ALL.map(semel_server::role::Role::word)
    );
}

#[tokio::test]
async fn every_described_route_exists_and_calls_have_names_of_their_own() {
    let stage = Stage::new().await;
    let served = stage.get("/openapi.json").await.is(200);
    assert_eq!(&served.json, document());
    assert_eq!(served.json["openapi"], "3.1.0");
    let mut names = std::collections::BTreeSet::new();
    for (path, operations) in served.json["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            if path == "/v1/stream" {
                continue;
            }
            let concrete = path.replace("{digest}", &"0".repeat(64)).replace(['{', '}'], "");
            let response = stage
                .request(&method.to_ascii_uppercase(), &concrete)
                .send()
                .await
                .unwrap();
            let answer = crate::stage::read(response).await;
            let detail = answer.json["detail"].as_str().unwrap_or_default();
            assert!(
                answer.status != 405 && !detail.contains("no route"),
                "{method} {path}: {answer:?}"
            );
        }
    }
    assert!(names.len() > 60, "{}", names.len());
    stage.get("/v1/nothing").await.refused(404, "not_found");
    stage
        .call("PUT", "/v1/jobs", serde_json::json!({}))
        .await
        .refused(405, "method_not_allowed");
}

#[test]
fn the_guide_lists_every_route_with_its_role_and_every_code() {
    use semel_server::route::Access;
    let guide = include_str!("../../../../docs/guides/serving.md");
    let routes = semel_server::table::every();
    for route in &routes {
        let role = match route.access {
            Access::Open => "–",
            Access::Needs(role) => role.word(),
        };
        let line = format!(
            "| `{} {}` | {role} | {} |",
            route.method, route.path, route.summary
        );
        assert!(guide.contains(&line), "the guide lacks {line}");
    }
    let lines = guide
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains(" /"))
        .count();
    assert_eq!(lines, routes.len(), "the guide lists a route that is not there");
    for code in semel_server::CODES {
        assert!(
            guide.contains(&format!("| `{}` | {} |", code.word, code.status)),
            "the guide lacks {}",
            code.word
        );
    }
}
