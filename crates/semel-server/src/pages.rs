//! The dashboard: rendered here, without a build step; every name, key, error and payload is a text node.
//!
//! One file per screen. A small script of our own ([`assets`]) keeps parts marked `data-live` up to date and sends
//! forms as JSON to the same routes every other client uses.

mod assets;
mod audit;
mod configuration;
mod dead_letters;
mod duplicates;
mod explain;
mod in_doubt;
mod jobs;
mod keys;
mod lanes;
mod layout;
mod login;
mod operations;
mod outbox;
mod overview;
mod parts;
mod problems;
mod schedules;
mod workers;

pub use problems::problem;

use crate::role::Role::Read;
use crate::route::{Route, get, open};

/// The pages' routes.
pub fn routes() -> Vec<Route> {
    vec![
        get("/", Read, "Overview", overview::page),
        get("/keys", Read, "Keys", keys::list),
        get("/keys/{digest}", Read, "Key", keys::one),
        get("/jobs", Read, "Jobs", jobs::list),
        get("/jobs/{id}", Read, "Job", jobs::one),
        get("/queues", Read, "Queues and tasks", lanes::page),
        get("/workers", Read, "Workers", workers::page),
        get("/duplicates", Read, "Duplicates", duplicates::page),
        get("/dead-letters", Read, "Dead letters", dead_letters::page),
        get("/operations/{id}", Read, "Bulk act", operations::page),
        get("/schedules", Read, "Schedules", schedules::page),
        get("/explain", Read, "Explain", explain::page),
        get("/in-doubt", Read, "In doubt", in_doubt::page),
        get("/outbox", Read, "Outbox", outbox::page),
        get("/configuration", Read, "Configuration", configuration::page),
        get("/audit", Read, "Audit", audit::page),
        open("/login", "Sign in", login::page),
        open("/problems/{code}", "What a code means", problems::page),
        open("/assets/style.css", "How pages look", assets::style),
        open("/assets/script.js", "What keeps pages live", assets::script),
        open("/favicon.ico", "The sign of the pages", assets::icon),
    ]
}
