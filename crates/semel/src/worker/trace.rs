//! One span per attempt, with the trace the producer began (W3C trace context, in the job's headers), and the same
//! trace for what the handler submits.

use std::collections::BTreeMap;

use tracing::{Level, Span};

use crate::job_error::JobError;
use crate::worker::lease::Lease;

/// The header a producer's trace context travels in.
pub const TRACEPARENT: &str = "traceparent";

/// The span of an attempt. `trace_id` and `parent_id` are the producer's, where it sent them.
pub(crate) fn span(lease: &Lease) -> Span {
    // Most workers listen to warnings only: nothing is made ready for nobody.
    if !tracing::enabled!(Level::INFO) {
        return Span::none();
    }
    let job = &lease.job;
    let parent = job.headers.get(TRACEPARENT).and_then(|header| parse(header));
    let (trace_id, parent_id) = parent.unwrap_or_default();
    tracing::info_span!(
        "attempt",
        job_id = %job.id,
        task = %job.task,
        queue = %job.queue,
        attempt = job.attempt,
        fence = lease.fence,
        trace_id,
        parent_id,
    )
}

tokio::task_local! {
    /// The trace context of the job whose handler runs.
    static CONTEXT: String;
}

/// Runs a handler within the trace its job came with.
pub(crate) async fn within<T>(lease: &Lease, work: impl Future<Output = T>) -> T {
    match lease.job.headers.get(TRACEPARENT) {
        Some(context) => CONTEXT.scope(context.clone(), work).await,
        None => work.await,
    }
}

/// Lets a submission made by a handler go on with its trace, unless it brings one of its own.
pub(crate) fn carry(headers: &mut BTreeMap<String, String>) {
    let _ = CONTEXT.try_with(|context| {
        if !headers.contains_key(TRACEPARENT) {
            headers.insert(TRACEPARENT.to_owned(), context.clone());
        }
    });
}

/// Trace and parent of a `traceparent` header, if it is one.
fn parse(header: &str) -> Option<(&str, &str)> {
    let mut parts = header.split('-');
    let (version, trace, parent) = (parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let known = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(parent, 16);
    let is_something = |text: &str| text.bytes().any(|byte| byte != b'0');
    (known && is_something(trace) && is_something(parent)).then_some((trace, parent))
}

pub(crate) fn ended_in_error(error: &JobError) {
    tracing::info!(error = %error, fatal = error.is_fatal(), "the attempt ended without an output");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_context_is_read_and_nonsense_is_not() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(
            parse(header),
            Some(("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"))
        );
        assert_eq!(
            parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
            None
        );
        assert_eq!(
            parse("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            None
        );
        assert_eq!(parse("hello"), None);
    }
}
