//! Until nothing is left to do.

use std::time::Duration;

use semel::Client;
use semel_core::ids::Name;
use semel_core::job::State;
use semel_core::store::Interest;
use semel_core::view::LaneStats;

use crate::session::asked_to_stop;

/// How often to look, if nothing is heard of.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Comes back once no job of these tasks and queues is queued or running, or a signal asks to stop.
/// Paused work does not count: it would never be done.
pub async fn until_drained(client: &Client, tasks: &[Name], queues: &[Name]) {
    tokio::select! {
        () = drained(client, tasks, queues) => {}
        () = asked_to_stop() => {}
    }
}

async fn drained(client: &Client, tasks: &[Name], queues: &[Name]) {
    let store = client.store();
    let ours = |lane: &&LaneStats| {
        tasks.contains(&lane.task) && (queues.is_empty() || queues.contains(&lane.queue)) && !lane.paused
    };
    let open = |lane: &LaneStats| {
        let of = |state: State| lane.jobs.get(&state).copied().unwrap_or(0);
        of(State::Queued) + of(State::Running)
    };
    loop {
        let mark = store.mark();
        // A store that cannot answer now is asked again: the worker says what is wrong with it.
        if let Ok(stats) = store.stats().await
            && stats.lanes.iter().filter(ours).map(open).sum::<i64>() == 0
        {
            return;
        }
        store.changed(mark, Interest::Ends, LOOK_EVERY).await;
    }
}
