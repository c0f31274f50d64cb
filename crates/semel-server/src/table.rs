//! Every route there is.

use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::api::{
    Why, claims, dead_letters, duplicates, events, guard, jobs, keys, lanes, login, operations, outbox,
    query, schedules, seeing, stats, steps, submit, tokens,
};
use crate::app::App;
use crate::role::Role::{Admin, Operate, Read, Submit, Work};
use crate::route::{Route, delete, get, open, open_post, patch, post, put};
use crate::{door, metrics, openapi, pages, stream, wire};

/// The whole server.
pub fn router(app: &App) -> Router {
    metrics::start();
    let mounted = every()
        .into_iter()
        .fold(Router::new(), |router, route| route.mount(router));
    mounted
        .fallback(door::nowhere)
        .method_not_allowed_fallback(door::no_such_method)
        .layer(from_fn_with_state(app.clone(), door::enter))
        .with_state(app.clone())
}

/// Every route, pages too.
pub fn every() -> Vec<Route> {
    api().into_iter().chain(pages::routes()).collect()
}

/// The routes that are described in the OpenAPI document.
pub fn api() -> Vec<Route> {
    [
        job_routes(),
        work_routes(),
        lane_routes(),
        operating_routes(),
        seeing_routes(),
        server_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn job_routes() -> Vec<Route> {
    vec![
        post("/v1/jobs", Submit, "Submit a job", submit::one)
            .hears("Idempotency-Key", "The same as idempotency_key, quoted or bare")
            .takes::<wire::Submission>()
            .gives::<wire::Answer<'_>>(201, "A new job has it")
            .gives::<wire::Answer<'_>>(200, "A job that was there has it; with Idempotent-Replayed: true")
            .refuses(&[
                "duplicate_rejected",
                "idempotency_conflict",
                "closed",
                "too_many",
                "busy",
            ]),
        post(
            "/v1/jobs/batch",
            Submit,
            "Submit many jobs, each for itself",
            submit::batch,
        )
        .takes::<submit::BatchSchema>()
        .gives::<submit::BatchAnswers>(200, "One answer each, in order"),
        post(
            "/v1/jobs/explain",
            Read,
            "Say what a submission would get; writes nothing",
            submit::explain,
        )
        .hears("Idempotency-Key", "The same as idempotency_key, quoted or bare")
        .takes::<wire::Submission>()
        .gives::<wire::Explanation<'_>>(200, "What would happen, and why")
        .refuses(&["closed"]),
        get("/v1/jobs", Read, "List jobs, newest first", jobs::list)
            .asks::<query::JobsQuery>()
            .lists::<wire::Job<'_>>("Jobs")
            .refuses(&["not_found"]),
        get("/v1/jobs/{id}", Read, "Show a job", jobs::show)
            .gives::<wire::Job<'_>>(200, "The job")
            .refuses(&["not_found"]),
        get(
            "/v1/jobs/{id}/attempts",
            Read,
            "List the deliveries of a job that have ended",
            jobs::attempts,
        )
        .lists::<wire::Attempt<'_>>("Deliveries, oldest first")
        .refuses(&["not_found"]),
        get(
            "/v1/jobs/{id}/logs",
            Read,
            "List the log lines of a job",
            jobs::logs,
        )
        .asks::<query::PageQuery>()
        .lists::<wire::LogLine>("Lines, newest first")
        .refuses(&["not_found"]),
        get(
            "/v1/jobs/{id}/steps",
            Read,
            "List the steps of a job's chain",
            jobs::steps,
        )
        .lists::<wire::Step<'_>>("Steps")
        .refuses(&["not_found"]),
        get(
            "/v1/jobs/{id}/wait",
            Read,
            "Wait until a job has ended",
            jobs::wait,
        )
        .asks::<jobs::WaitQuery>()
        .gives::<wire::Job<'_>>(200, "It has ended; a replayed one is followed")
        .gives::<wire::Job<'_>>(202, "It goes on")
        .refuses(&["not_found", "too_many", "busy"]),
        post(
            "/v1/jobs/{id}/cancel",
            Operate,
            "End a job that has not ended",
            jobs::cancel,
        )
        .may_take::<Why>()
        .gives::<wire::Acted<'_>>(200, "It is cancelled")
        .refuses(&["not_found", "terminal"]),
        post(
            "/v1/jobs/{id}/retry",
            Operate,
            "Give a failed or cancelled job a new life",
            jobs::retry,
        )
        .may_take::<Why>()
        .gives::<wire::Acted<'_>>(200, "It waits again")
        .refuses(&[
            "not_found",
            "not_terminal",
            "terminal",
            "duplicate_rejected",
            "replayed",
        ]),
    ]
}

fn work_routes() -> Vec<Route> {
    vec![
        post("/v1/claims", Work, "Lease jobs that are due", claims::claim)
            .takes::<claims::ClaimSaid>()
            .gives::<claims::Claims<'_>>(200, "Leased jobs, best first; none is fine")
            .refuses(&["too_many", "busy"]),
        post(
            "/v1/claims/extend",
            Work,
            "Heartbeats, with progress and log lines",
            claims::extend,
        )
        .takes::<claims::ExtendSaid>()
        .gives::<claims::Results>(200, "One result each, in order"),
        post(
            "/v1/claims/settle",
            Work,
            "Say how attempts ended",
            claims::settle,
        )
        .takes::<claims::SettleSaid>()
        .gives::<claims::Results>(200, "One result each, in order"),
        post(
            "/v1/claims/steps",
            Work,
            "Speak about a step of a running job",
            claims::steps,
        )
        .takes::<claims::StepSaid>()
        .gives::<claims::Results>(200, "How the step stands"),
        post(
            "/v1/guard/reserve",
            Submit,
            "Reserve a key outside jobs",
            guard::reserve,
        )
        .takes::<guard::ReserveSaid>()
        .gives::<guard::Answered>(200, "How the key stands"),
        post(
            "/v1/guard/confirm",
            Submit,
            "Say that it was done, and what came of it",
            guard::confirm,
        )
        .takes::<guard::ConfirmSaid>()
        .gives::<guard::Answered>(200, "It is kept")
        .refuses(&["not_yours"]),
        post(
            "/v1/guard/release",
            Submit,
            "Say that it was not done",
            guard::release,
        )
        .takes::<guard::ReleaseSaid>()
        .gives::<guard::Answered>(200, "The key is free")
        .refuses(&["not_yours"]),
        post(
            "/v1/events/{name}",
            Submit,
            "Send an event: a job for each subscriber",
            events::send,
        )
        .takes::<events::EventSaid>()
        .gives::<events::Deliveries<'_>>(200, "What became of it, per subscriber")
        .refuses(&["no_subscribers"]),
        get("/v1/events", Read, "List who is subscribed to what", events::list)
            .lists::<events::SubscriberRow<'_>>("Subscribers"),
        get(
            "/v1/events/{name}/subscribers",
            Read,
            "List who is subscribed to an event",
            events::subscribers,
        )
        .lists::<events::SubscriberRow<'_>>("Subscribers"),
        get(
            "/v1/events/{name}/subscribers/{task}",
            Read,
            "Show a subscriber",
            events::subscriber,
        )
        .gives::<events::SubscriberRow<'_>>(200, "The subscriber")
        .refuses(&["not_found"]),
        put(
            "/v1/events/{name}/subscribers/{task}",
            Operate,
            "Subscribe a task to an event",
            events::subscribe,
        )
        .may_take::<events::SubscribeSaid>()
        .gives::<events::SubscriberRow<'_>>(200, "It is subscribed"),
        delete(
            "/v1/events/{name}/subscribers/{task}",
            Operate,
            "Unsubscribe a task",
            events::unsubscribe,
        )
        .may_take::<Why>()
        .ends(204, "It is no longer subscribed")
        .refuses(&["not_found"]),
        get("/v1/schedules", Read, "List schedules", schedules::list)
            .lists::<wire::Schedule<'_>>("Schedules"),
        get("/v1/schedules/{name}", Read, "Show a schedule", schedules::show)
            .gives::<wire::Schedule<'_>>(200, "The schedule")
            .refuses(&["not_found"]),
        put(
            "/v1/schedules/{name}",
            Operate,
            "Make or change a schedule",
            schedules::set,
        )
        .takes::<schedules::ScheduleSaid>()
        .gives::<wire::Schedule<'_>>(200, "The schedule"),
        delete(
            "/v1/schedules/{name}",
            Operate,
            "Remove a schedule; its jobs stay",
            schedules::remove,
        )
        .may_take::<Why>()
        .ends(204, "It is gone")
        .refuses(&["not_found"]),
    ]
}

fn lane_routes() -> Vec<Route> {
    vec![
        get(
            "/v1/queues",
            Read,
            "List queues with numbers and settings",
            lanes::queues,
        )
        .lists::<wire::QueueRow>("Queues"),
        patch(
            "/v1/queues/{queue}",
            Operate,
            "Open or close a queue, declare it unique, let it observe",
            lanes::change_queue,
        )
        .takes::<lanes::LaneSaid>()
        .gives::<wire::Setting>(200, "How it is set now"),
        post(
            "/v1/queues/{queue}/pause",
            Operate,
            "Hold a queue's work back",
            lanes::pause_queue,
        )
        .may_take::<lanes::PauseSaid>()
        .gives::<wire::Setting>(200, "How it is set now"),
        post(
            "/v1/queues/{queue}/resume",
            Operate,
            "Let a queue's work go on",
            lanes::resume_queue,
        )
        .may_take::<Why>()
        .gives::<wire::Setting>(200, "How it is set now"),
        delete(
            "/v1/queues/{queue}",
            Operate,
            "Remove a queue with all its jobs",
            lanes::delete_queue,
        )
        .may_take::<Why>()
        .gives::<lanes::Removed>(200, "It is gone"),
        get(
            "/v1/tasks",
            Read,
            "List tasks with numbers, settings and workers",
            lanes::tasks,
        )
        .lists::<wire::TaskRow>("Tasks"),
        patch(
            "/v1/tasks/{task}",
            Operate,
            "Open or close a task, let it observe",
            lanes::change_task,
        )
        .takes::<lanes::LaneSaid>()
        .gives::<wire::Setting>(200, "How it is set now"),
        post(
            "/v1/tasks/{task}/pause",
            Operate,
            "Hold a task's work back",
            lanes::pause_task,
        )
        .may_take::<lanes::PauseSaid>()
        .gives::<wire::Setting>(200, "How it is set now"),
        post(
            "/v1/tasks/{task}/resume",
            Operate,
            "Let a task's work go on",
            lanes::resume_task,
        )
        .may_take::<Why>()
        .gives::<wire::Setting>(200, "How it is set now"),
        post("/v1/pause", Operate, "Hold all work back", lanes::pause_all)
            .may_take::<lanes::PauseSaid>()
            .gives::<wire::Setting>(200, "How the store is set now"),
        post("/v1/resume", Operate, "Let all work go on", lanes::resume_all)
            .may_take::<Why>()
            .gives::<wire::Setting>(200, "How the store is set now"),
    ]
}

fn operating_routes() -> Vec<Route> {
    vec![
        get(
            "/v1/dead-letters",
            Read,
            "List dead letters, grouped and one by one",
            dead_letters::list,
        )
        .asks::<dead_letters::LettersQuery>()
        .gives::<wire::DeadLetters<'_>>(200, "Groups and dead letters, newest first"),
        post(
            "/v1/dead-letters/{id}/replay",
            Operate,
            "Make a fresh job of a dead letter",
            dead_letters::replay,
        )
        .may_take::<Why>()
        .gives::<wire::Acted<'_>>(201, "A fresh job")
        .gives::<wire::Acted<'_>>(200, "It was replayed before: that job")
        .refuses(&[
            "not_found",
            "terminal",
            "not_terminal",
            "duplicate_rejected",
            "closed",
        ]),
        delete(
            "/v1/dead-letters/{id}",
            Operate,
            "Drop a dead letter",
            dead_letters::drop_one,
        )
        .may_take::<Why>()
        .gives::<wire::Acted<'_>>(200, "It is gone")
        .refuses(&["not_found", "not_terminal"]),
        post(
            "/v1/operations",
            Operate,
            "Plan a bulk act, or carry a plan out",
            operations::start,
        )
        .takes::<operations::OperationSaid>()
        .gives::<wire::Operation<'_>>(200, "The plan; nothing was done, or all of it before")
        .gives::<wire::Operation<'_>>(202, "It is being carried out")
        .refuses(&["not_found", "under_way"]),
        get(
            "/v1/operations",
            Read,
            "List the newest bulk acts",
            operations::list,
        )
        .lists::<wire::Operation<'_>>("Bulk acts, newest first"),
        get(
            "/v1/operations/{id}",
            Read,
            "Show a bulk act and how far it has come",
            operations::show,
        )
        .gives::<wire::Operation<'_>>(200, "The bulk act")
        .refuses(&["not_found"]),
        post(
            "/v1/operations/{id}/abort",
            Operate,
            "Stop a bulk act",
            operations::abort,
        )
        .may_take::<Why>()
        .gives::<wire::Operation<'_>>(200, "It is stopped; what was done stays done")
        .refuses(&["not_found", "terminal"]),
        get("/v1/keys", Read, "Find keys", keys::list)
            .asks::<query::KeysQuery>()
            .lists::<wire::KeyRow<'_>>("Keys, those taken last first"),
        get(
            "/v1/keys/{digest}",
            Read,
            "Show a key with its ledger",
            keys::show,
        )
        .asks::<query::PageQuery>()
        .gives::<wire::KeyPage<'_>>(200, "The key")
        .refuses(&["not_found"]),
        post(
            "/v1/keys/{digest}/release",
            Operate,
            "Free a key by hand",
            keys::release,
        )
        .takes::<keys::ReleaseSaid>()
        .gives::<wire::Acted<'_>>(200, "It is free")
        .refuses(&["not_found", "holder_changed"]),
        get("/v1/steps", Read, "List steps in doubt", steps::list)
            .asks::<steps::StepsQuery>()
            .lists::<wire::StepRow<'_>>("Steps, oldest first"),
        post(
            "/v1/steps/{origin}/{step}/resolve",
            Operate,
            "Decide about a step in doubt",
            steps::resolve,
        )
        .takes::<steps::ResolveSaid>()
        .gives::<wire::Acted<'_>>(200, "It is decided; a parked job goes on")
        .refuses(&["not_found", "not_in_doubt"]),
        get(
            "/v1/outbox",
            Read,
            "How the outbox stands that this server relays",
            outbox::show,
        )
        .gives::<outbox::Standing<'_>>(200, "What waits, how long, and what was parked")
        .refuses(&["not_found", "outbox_unavailable"]),
        post(
            "/v1/outbox/retry",
            Operate,
            "Try parked events of the outbox again",
            outbox::retry,
        )
        .may_take::<outbox::RetrySaid>()
        .gives::<outbox::Retried>(200, "They are tried again")
        .refuses(&["not_found", "outbox_unavailable"]),
    ]
}

fn seeing_routes() -> Vec<Route> {
    vec![
        get("/v1/workers", Read, "List live workers", seeing::workers).lists::<wire::Worker<'_>>("Workers"),
        get(
            "/v1/duplicates",
            Read,
            "List absorbed submissions, newest first",
            duplicates::list,
        )
        .asks::<duplicates::DuplicatesQuery>()
        .lists::<wire::LedgerEntry<'_>>("Absorbed submissions"),
        get(
            "/v1/stats",
            Read,
            "Counters and sizes, at most a second old",
            stats::show,
        )
        .asks::<stats::StatsQuery>()
        .gives::<wire::Stats>(200, "Totals, then queues, then tasks; with format=csv a table")
        .or_gives("text/csv"),
        get(
            "/v1/stats/history",
            Read,
            "Snapshots of the counters",
            stats::history,
        )
        .asks::<stats::HistoryQuery>()
        .lists::<wire::Snapshot>("Snapshots, oldest first; with format=csv a table")
        .or_gives("text/csv"),
        post(
            "/v1/stats/reset",
            Operate,
            "Let the counters begin anew",
            stats::reset,
        )
        .may_take::<Why>()
        .gives::<stats::ResetAnswer>(200, "Since when they count"),
        get(
            "/v1/alerts",
            Read,
            "What needs somebody, and the command that helps",
            seeing::alerts,
        )
        .gives::<seeing::Alerts>(200, "Alerts"),
        get("/v1/advice", Read, "What the ledger advises", seeing::advice)
            .lists::<crate::advice::Advice>("Advice"),
        get(
            "/v1/guarantees",
            Read,
            "What is atomic and what survives what",
            seeing::guarantees,
        )
        .gives::<wire::GuaranteeSheet>(200, "The sheet"),
        get("/v1/audit", Read, "What people did", seeing::audit)
            .asks::<query::PageQuery>()
            .lists::<seeing::AuditRow<'_>>("Entries, newest first"),
        get(
            "/v1/stream",
            Read,
            "Server-sent events: job, duplicate, alert, stats",
            stream::listen,
        )
        .gives_other("text/event-stream", "Events")
        .refuses(&["too_many", "busy"]),
    ]
}

fn server_routes() -> Vec<Route> {
    vec![
        get("/v1/tokens", Admin, "List tokens", tokens::list)
            .lists::<tokens::TokenRow<'_>>("Tokens, without the tokens"),
        post("/v1/tokens", Admin, "Make a token", tokens::create)
            .takes::<tokens::TokenSaid>()
            .gives::<tokens::MadeToken<'_>>(201, "The token: it is said once")
            .refuses(&["not_unique"]),
        delete(
            "/v1/tokens/{id}",
            Admin,
            "Revoke a token, by id or name",
            tokens::revoke,
        )
        .may_take::<Why>()
        .ends(204, "It is refused from now on")
        .refuses(&["not_found"]),
        open("/healthz", "Whether the process answers", seeing::healthz)
            .gives::<seeing::Health>(200, "It does"),
        open("/readyz", "Whether the store takes writes", seeing::readyz)
            .gives::<seeing::Health>(200, "It does")
            .refuses(&["busy"]),
        get("/metrics", Read, "Metrics for Prometheus", metrics::show).gives_other("text/plain", "Metrics"),
        open("/openapi.json", "This document", openapi::document)
            .gives_other("application/json", "OpenAPI 3.1"),
        open_post("/login", "Sign in at the page", login::sign_in)
            .takes::<login::LoginSaid>()
            .ends(204, "The cookie is set"),
        open_post("/logout", "Sign out at the page", login::sign_out)
            .may_take::<login::NothingSaid>()
            .ends(204, "The cookie is gone"),
    ]
}
