//! The closed sets of words an answer may have, as the OpenAPI document lists them.
//!
//! The words are core's own; here they only have a schema. A test compares the two.

use utoipa::ToSchema;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, ToSchema)]
        #[schema(rename_all = "snake_case")]
        #[allow(missing_docs)]
        pub enum $name { $($variant),+ }
    )+};
}

words! {
    /// Where a job stands.
    State { Scheduled, Queued, Running, Deferred, Parked, Complete, Failed, Cancelled }
    /// What became of a submission.
    Outcome { Accepted, Duplicate, Replaced, Debounced, Deferred, Spooled, Rejected, Conflict }
    /// What a key is made from.
    KeyBy { Explicit, Input, Fields, Except, Hybrid, Generated }
    /// How long a key stays taken.
    HoldKind { UntilStarted, UntilFinished, Window, Forever }
    /// Whether policies act or only watch.
    Mode { Enforce, Observe }
    /// Whether submissions are taken.
    Intake { Open, Closed }
    /// Where a step stands.
    StepState { Begun, Confirmed, Refused }
    /// How a delivery ended.
    AttemptResult { Complete, Error, Failed, Snoozed, HandedBack, Parked, Cancelled, Expired }
    /// What a bulk act does to each.
    Action { Cancel, Retry, Replay, Release, Delete }
    /// Where a bulk act stands.
    OperationStatus { Planned, Running, Done, Aborted }
    /// What happens at a tick while the job of the one before has not ended.
    Overlap { Skip, Queue, Replace }
    /// What a tick came to.
    TickOutcome { Submitted, Skipped, Replaced, Refused }
    /// Where a key must be unique.
    Scope { Task, Queue, Global, Custom }
    /// What happens when the key is taken.
    OnDuplicate { UseExisting, Reject, Replace, Debounce, Latest }
    /// What happens when an explicit key comes back with something else.
    OnMismatch { Conflict, Ignore }
    /// Outcomes that free a kept key early.
    ReleaseOn { Failed, Cancelled }
    /// A calendar period.
    PeriodUnit { Minute, Hour, Day, Week, Month }
    /// What a token may do.
    Role { Read, Submit, Work, Operate, Admin }
}
