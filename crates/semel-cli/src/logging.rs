//! Structured log lines on the error output, as `SEMEL_LOG` asks for.

mod json;

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;

use crate::problem::Problem;
use crate::settings::Settings;

/// Begins to log: for people on a terminal as lines of text, everywhere else as JSON.
pub fn start(settings: &Settings, usual: &str) -> Result<(), Problem> {
    let wanted = settings.log.as_ref().map_or(usual, |log| log.value.as_str());
    let filter = EnvFilter::try_new(wanted).map_err(|error| {
        Problem::usage(format!("SEMEL_LOG {wanted:?} is not understood: {error}"))
            .hint("for example off, warn, info, debug or semel=debug,warn")
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    // A second subscriber is refused; the first goes on.
    let _ = if io::stderr().is_terminal() {
        lines.compact().with_target(false).try_init()
    } else {
        lines
            .fmt_fields(JsonFields::new())
            .event_format(json::Lines)
            .try_init()
    };
    Ok(())
}
