//! Submissions in general.

use semel_core::job::State;

use super::list::cases;
use crate::kit::{World, plain};

cases![
    "1.4" => an_accepted_job_is_queued,
];

fn an_accepted_job_is_queued(world: &World) {
    let id = world.accepted(plain());
    assert_eq!(world.state(&id), State::Queued);
}
