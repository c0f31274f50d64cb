//! The bounds of a request and the defaults of a job (contract 8.1 and its defaults).

use std::sync::OnceLock;

use crate::error::Invalid;
use crate::ids::Name;
use crate::submission::Content;
use crate::time::Millis;

/// Attempts that may end in an error, where none is said.
pub const MAX_ATTEMPTS: u32 = 5;
/// Leases that may expire, where none is said.
pub const MAX_DELIVERIES: u32 = 5;
/// The lease of a claim, where none is said.
pub const LEASE: Millis = Millis::from_secs(30);
/// How long a claim is remembered at least, so that it can be sent again.
pub const CLAIM_KEPT: Millis = Millis::from_secs(60);
/// Items in one call.
pub const BATCH: usize = 1_000;
/// Rows in one page of a list.
pub const PAGE: usize = 500;
/// Bytes of an input.
pub const INPUT_BYTES: usize = 256 * 1024;
/// Bytes of an output or the output of a step.
pub const OUTPUT_BYTES: usize = 256 * 1024;
/// Bytes of an error message; longer ones are cut.
pub const ERROR_BYTES: usize = 16 * 1024;
/// Bytes of all headers of a job together.
pub const HEADERS_BYTES: usize = 16 * 1024;
/// Bytes of the metadata of a job.
pub const META_BYTES: usize = 16 * 1024;
/// Bytes of one log line; longer ones are cut.
pub const LOG_LINE_BYTES: usize = 8 * 1024;
/// Bytes of an input kept in the ledger.
pub const LEDGER_INPUT_BYTES: usize = 4 * 1024;
/// Entries the ledger keeps per key; totals stay exact.
pub const LEDGER_PER_KEY: usize = 1_000;
/// Entries the ledger keeps in all; totals stay exact.
pub const LEDGER_PER_STORE: usize = 1_000_000;
/// Pointers named when two inputs differ.
pub const DIFFERS: usize = 20;
/// Queues in one namespace.
pub const QUEUES: usize = 1_000;
/// Tasks in one namespace.
pub const TASKS: usize = 10_000;
/// Bytes of a document.
pub const DOCUMENT_BYTES: usize = 256 * 1024;
/// The longest ttl, cool-down, delay: ten years.
pub const LONGEST: Millis = Millis::from_days(3_653);

/// The queue of a submission that names none.
pub fn default_queue() -> Name {
    static NAME: OnceLock<Name> = OnceLock::new();
    NAME.get_or_init(|| Name::new("default").expect("a valid name"))
        .clone()
}

/// −100 to 100.
pub fn check_priority(priority: i8) -> Result<(), Invalid> {
    if !(-100..=100).contains(&priority) {
        return Err(Invalid::new("priority", "-100 to 100, larger first").found(priority.to_string()));
    }
    Ok(())
}

/// At least one attempt and one delivery.
pub fn check_counts(max_attempts: u32, max_deliveries: u32) -> Result<(), Invalid> {
    let fits = |count: u32| (1..=1_000).contains(&count);
    if !fits(max_attempts) || !fits(max_deliveries) {
        return Err(Invalid::new("max_attempts and max_deliveries", "1 to 1000"));
    }
    Ok(())
}

/// One second to one hour.
pub fn check_lease(lease: Millis) -> Result<(), Invalid> {
    if !(Millis::from_secs(1)..=Millis::from_secs(3_600)).contains(&lease) {
        return Err(Invalid::new("lease", "1 second to 1 hour").found(format!("{} ms", lease.as_millis())));
    }
    Ok(())
}

/// At most 1,000 items; none is fine.
pub fn check_batch(what: &str, items: usize) -> Result<(), Invalid> {
    if items > BATCH {
        return Err(Invalid::new(what, format!("at most {BATCH} items in one call")).found(items.to_string()));
    }
    Ok(())
}

/// Sizes of headers and metadata, and a timeout of more than nothing.
pub fn check_content(content: &Content) -> Result<(), Invalid> {
    let headers: usize = content
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if headers > HEADERS_BYTES {
        return Err(Invalid::new(
            "headers",
            format!("at most {HEADERS_BYTES} bytes in all"),
        ));
    }
    if content.input.as_str().len() > INPUT_BYTES {
        return Err(Invalid::new("input", format!("at most {INPUT_BYTES} bytes")));
    }
    if let Some(meta) = &content.meta {
        let object = meta.as_str().trim_start().starts_with('{');
        if !object || meta.as_str().len() > META_BYTES {
            return Err(Invalid::new(
                "meta",
                format!("a JSON object of at most {META_BYTES} bytes"),
            ));
        }
    }
    if content.timeout.is_some_and(Millis::is_zero) {
        return Err(Invalid::new("timeout", "at least one millisecond"));
    }
    Ok(())
}

/// Cuts text at a byte bound without splitting a character.
pub fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
