//! The OpenAPI document, made from the routes.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::problem::Code;
use crate::route::{Access, Answer, Route};
use crate::wire::{Holder, words};

/// The codes any route may refuse with.
const ALWAYS: [&str; 7] = [
    "invalid",
    "unauthorized",
    "forbidden",
    "cross_origin",
    "wrong_host",
    "internal",
    "store_unavailable",
];

/// What went wrong.
#[derive(Debug, ToSchema)]
#[allow(missing_docs)]
pub struct Problem<'a> {
    /// The page about the code.
    #[schema(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// The word to compare with.
    pub code: String,
    pub detail: String,
    pub hint: Option<String>,
    pub request_id: Option<String>,
    /// The job that holds the key.
    pub holder: Option<Holder<'a>>,
    /// JSON pointers at which the inputs differ; never values.
    pub differs: Option<Vec<String>>,
    /// Where the job stands.
    pub state: Option<words::State>,
    pub replayed_as: Option<String>,
    pub target: Option<String>,
}

/// `GET /openapi.json`
pub async fn document() -> Response {
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let text = TEXT.get_or_init(|| describe(&crate::table::api()).to_string());
    ([(header::CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}

/// Describes routes.
pub fn describe(routes: &[Route]) -> Value {
    let mut components = BTreeMap::new();
    for part in collect::<Problem<'static>>() {
        components.insert(part.0, part.1);
    }
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes {
        for shape in shapes(route) {
            components.extend(shape.parts.iter().cloned());
        }
        let method = route.method.as_str().to_ascii_lowercase();
        paths
            .entry(route.path)
            .or_default()
            .insert(method, operation(route));
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Semel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A durable job queue in which doing work once is the centre. Requests are strict; answers may gain members. Errors are application/problem+json with a stable code.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    tidy(&mut document);
    document
}

fn collect<T: ToSchema>() -> Vec<(String, Value)> {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    parts.push((T::name().into_owned(), T::schema()));
    let as_json = |schema| serde_json::to_value(schema).unwrap_or_default();
    parts
        .into_iter()
        .map(|(name, schema)| (name, as_json(schema)))
        .collect()
}

fn shapes(route: &Route) -> impl Iterator<Item = &crate::route::Shape> {
    let answers = route.answers.iter().filter_map(|(_, _, answer)| match answer {
        Answer::Json(shape) => Some(shape),
        Answer::Empty | Answer::Other(_) => None,
    });
    route.body.iter().chain(answers)
}

fn operation(route: &Route) -> Value {
    let role = match route.access {
        Access::Open => None,
        Access::Needs(role) => Some(role.word()),
    };
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "tags": [tag(route.path)],
        "parameters": parameters(route),
        "responses": responses(route),
    });
    match role {
        Some(role) => {
            operation["security"] = json!([{ "token": [] }]);
            operation["x-role"] = role.into();
        }
        None => operation["security"] = json!([]),
    }
    if let Some(body) = &route.body {
        operation["requestBody"] = json!({
            "required": !route.body_optional,
            "content": { "application/json": { "schema": body.reference } },
        });
    }
    operation
}

fn tag(path: &str) -> &str {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match parts.next() {
        Some("v1") => parts.next().unwrap_or("server"),
        _ => "server",
    }
}

fn parameters(route: &Route) -> Vec<Value> {
    let variable = route
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path = variable
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let headers = route.headers.iter().map(|(name, what)| {
        json!({ "name": name, "in": "header", "required": false, "description": what, "schema": { "type": "string" } })
    });
    path.chain(route.query.iter().cloned()).chain(headers).collect()
}

fn responses(route: &Route) -> Map<String, Value> {
    let mut responses = Map::new();
    for (status, what, answer) in &route.answers {
        let mut response = json!({ "description": what });
        match answer {
            Answer::Empty => {}
            Answer::Json(shape) => {
                response["content"] = json!({ "application/json": { "schema": shape.reference } });
            }
            Answer::Other(content) => {
                response["content"] = json!({ (*content): { "schema": { "type": "string" } } });
            }
        }
        for (_, content) in route.others.iter().filter(|(other, _)| other == status) {
            response["content"][*content] = json!({ "schema": { "type": "string" } });
        }
        responses.insert(status.to_string(), response);
    }
    let mut codes: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    let mut refuse = |code: &Code| {
        codes.entry(code.status).or_default().insert(code.word);
    };
    ALWAYS.iter().for_each(|word| refuse(Code::named(word)));
    if route.body.is_some() {
        ["too_large", "not_json", "timeout"]
            .iter()
            .for_each(|word| refuse(Code::named(word)));
    }
    route
        .refusals
        .iter()
        .for_each(|(_, word)| refuse(Code::named(word)));
    for (status, words) in codes {
        let words: Vec<&str> = words.into_iter().collect();
        let status = status.to_string();
        if responses.contains_key(&status) {
            continue;
        }
        let refusal = json!({
            "description": format!("code: {}", words.join(", ")),
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        });
        responses.insert(status, refusal);
    }
    responses
}

/// A member that can be absent is left out, never null: the document says so, and generated clients are simpler.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(members) => {
            nullable_moment(members);
            let required: BTreeSet<String> = members
                .get("required")
                .and_then(Value::as_array)
                .map(|names| {
                    names
                        .iter()
                        .filter_map(|name| name.as_str().map(str::to_owned))
                        .collect()
                })
                .unwrap_or_default();
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                for (name, property) in properties.iter_mut() {
                    if !required.contains(name) {
                        not_null(property);
                    }
                }
            }
            if members.contains_key("in")
                && let Some(schema) = members.get_mut("schema")
            {
                not_null(schema);
            }
            members.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

/// A moment that can be null is a text or null, not a union of two schemas.
fn nullable_moment(members: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = members.get("oneOf") else {
        return;
    };
    let is_moment = |choice: &Value| choice["$ref"] == "#/components/schemas/Moment";
    if choices.len() == 2 && choices.iter().any(is_moment) {
        members.remove("oneOf");
        members.insert("type".to_owned(), json!(["string", "null"]));
        members.insert("format".to_owned(), "date-time".into());
    }
}

fn not_null(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|word| word != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = members.get_mut("oneOf") {
        choices.retain(|choice| choice.get("type").and_then(Value::as_str) != Some("null"));
        if let [only] = choices.as_slice() {
            let only = only.as_object().cloned().unwrap_or_default();
            members.remove("oneOf");
            members.extend(only);
        }
    }
}
