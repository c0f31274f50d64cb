//! The few names and values the model plays with: few, so that everything collides.

use semel_core::ids::Name;
use semel_core::json::Json;

use crate::kit::{json, name};

/// The vocabulary.
pub(super) struct Words {
    pub(super) queues: Vec<Name>,
    pub(super) tasks: Vec<Name>,
    pub(super) workers: Vec<Name>,
    pub(super) producers: Vec<Name>,
    pub(super) steps: Vec<Name>,
    pub(super) scopes: Vec<Name>,
    pub(super) kinds: Vec<Name>,
    pub(super) documents: [&'static str; 3],
    pub(super) feeds: [&'static str; 2],
    pub(super) keys: [&'static str; 4],
    pub(super) guards: [&'static str; 3],
    pub(super) inputs: Vec<Json>,
    pub(super) outputs: Vec<Json>,
    pub(super) errors: [&'static str; 4],
}

impl Words {
    pub(super) fn new() -> Self {
        Words {
            queues: names(&["default", "mail", "queue"]),
            tasks: names(&["work", "queue", "send"]),
            workers: names(&["north", "south"]),
            producers: names(&["alpha", "beta"]),
            steps: names(&["charge", "ship"]),
            scopes: names(&["task", "shop"]),
            kinds: names(&["schedule", "worker"]),
            documents: ["a", "a/b", "z"],
            feeds: ["audit", "audit/2"],
            keys: ["k", "k1", "  k  ", "ключ"],
            guards: ["g", "g1", "g2"],
            // The first two are equal once canonical, the fourth has a field less.
            inputs: documents(&[
                r#"{"a":1,"b":1}"#,
                r#"{"b":1.0,"a":1}"#,
                r#"{"a":1,"b":2}"#,
                r#"{"b":1}"#,
                r#"{"a":{"c":[1,2]},"b":null}"#,
            ]),
            outputs: documents(&["null", "1", r#"{"done":true}"#]),
            errors: [
                "boom",
                "boom 12",
                "timeout after 30 s\nmore",
                "bad 'quote' \"x\" %_",
            ],
        }
    }
}

fn names(texts: &[&str]) -> Vec<Name> {
    texts.iter().map(|text| name(text)).collect()
}

fn documents(texts: &[&str]) -> Vec<Json> {
    texts.iter().map(|text| json(text)).collect()
}
