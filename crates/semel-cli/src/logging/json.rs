//! A log line as an object: `ts`, `level`, `msg`, and every field by its name (contract 7.6).

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::clock;

/// One object a line.
pub struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Map::new();
        // A field that has the name of one of these must not stand in for it: theirs are set last.
        event.record(&mut Members(&mut line));
        if let Some(span) = context.lookup_current() {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>();
            let fields = fields.and_then(|fields| serde_json::from_str::<Map<_, _>>(fields).ok());
            let mut fields = fields.unwrap_or_default();
            fields.insert("name".to_owned(), span.name().into());
            line.insert("span".to_owned(), fields.into());
        }
        let level = metadata.level().as_str().to_lowercase();
        line.insert("ts".to_owned(), clock::now().to_string().into());
        line.insert("level".to_owned(), level.into());
        line.insert("target".to_owned(), metadata.target().into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// Fields as members of an object.
struct Members<'a>(&'a mut Map<String, Value>);

impl Members<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        let name = match field.name() {
            "message" => "msg",
            name => name,
        };
        self.0.insert(name.to_owned(), value.into());
    }
}

impl Visit for Members<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}
