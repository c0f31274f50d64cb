//! What comes out: pages for people, JSON for machines.
//!
//! A command gathers everything first and says it at once. Pages go to the standard output and begin
//! with the store's name; notes, progress and errors go to the error output. Colour is for terminals.

mod page;
mod style;
mod table;

pub use page::Page;
pub use semel_server::text::{
    bytes, capital, clean, count, elide, flag, one_line, operand, percent, plural, pretty_json, shell,
};
pub use semel_server::when::{exact, relative, span};
pub use style::{Tone, paint, state_tone};
pub use table::{Column, Table};

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::clock;
use crate::exit::Exit;
use crate::problem::Problem;

/// Where output goes and how it looks.
#[derive(Clone, Debug)]
pub struct Screen {
    /// Whether a machine reads it.
    pub json: bool,
    width: Option<usize>,
}

impl Screen {
    /// The screen this process was started with.
    pub fn new(json: bool) -> Self {
        Screen {
            json,
            width: columns(),
        }
    }

    /// An empty page that begins with the store's name.
    pub fn page(&self, store: &str) -> Page {
        self.page_of("store", store)
    }

    /// An empty page that begins with where its contents come from.
    pub fn page_of(&self, kind: &str, place: &str) -> Page {
        let mut page = self.plain_page();
        page.line(paint(Tone::Quiet, format!("{kind} {}", clean(place))));
        page.blank();
        page
    }

    /// An empty page.
    pub fn plain_page(&self) -> Page {
        Page::new(self.width, clock::now())
    }

    /// Whether a person can be asked.
    pub fn can_ask(&self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Whether a person watches.
    pub fn is_watched(&self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// Shows a person that something is going on, until the answer is dropped.
    pub fn busy(&self, doing: &'static str) -> Busy {
        let bar = self.is_watched().then(|| {
            let bar = ProgressBar::new_spinner().with_message(doing);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Busy(bar)
    }

    /// Shows a person how far long work is, until the answer is dropped.
    pub fn progress(&self) -> Progress {
        let bar = self.is_watched().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Progress(bar)
    }

    /// Says a page.
    pub fn print(&self, page: &Page) -> Result<(), Problem> {
        self.write(&format!("{}\n", page.text().trim_end()))
    }

    /// Says one JSON document on one line.
    pub fn print_json(&self, value: &impl Serialize) -> Result<(), Problem> {
        let text = serde_json::to_string(value).map_err(|error| {
            Problem::new(
                Exit::Other,
                "other",
                format!("the answer cannot be written as JSON: {error}"),
            )
        })?;
        self.write(&(text + "\n"))
    }

    /// Says text as it is.
    pub fn write(&self, text: &str) -> Result<(), Problem> {
        let mut out = anstream::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Problem::new(
                Exit::Other,
                "other",
                format!("the answer cannot be written: {error}"),
            )),
            Ok(()) => Ok(()),
        }
    }

    /// Says something beside the answer, on the error output; machines are spared it.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.json {
            let _ = writeln!(anstream::stderr(), "{}", text.as_ref());
        }
    }

    /// Says what went wrong, on the error output.
    pub fn problem(&self, problem: &Problem) {
        let mut err = anstream::stderr();
        if self.json {
            let _ = writeln!(err, "{}", Value::Object(machine_problem(problem)));
            return;
        }
        let width = self.width.unwrap_or(usize::MAX);
        let mut page = Page::new(Some(width), clock::now());
        page.sentence(Tone::Bad, "error:", &problem.message);
        if let Some(hint) = &problem.hint {
            page.hint(hint);
        }
        let _ = err.write_all(page.text().as_bytes());
    }
}

/// Something is going on.
#[derive(Debug)]
pub struct Busy(Option<ProgressBar>);

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// How far long work is.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// What is done now, and how much of it.
    pub fn tell(&self, doing: &str, done: u64, of: u64) {
        if let Some(bar) = &self.0 {
            let far = if of > 1 {
                format!(": {done} of {of}")
            } else {
                String::new()
            };
            bar.set_message(format!("{doing}{far}"));
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn machine_problem(problem: &Problem) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("code".to_owned(), problem.code.into());
    object.insert("detail".to_owned(), problem.message.clone().into());
    if let Some(hint) = &problem.hint {
        object.insert("hint".to_owned(), hint.clone().into());
    }
    object.insert("exit".to_owned(), (problem.exit as u8).into());
    object.extend(problem.details.clone());
    object
}

/// `COLUMNS` wins, then the terminal; a pipe has no width and its lines are never broken.
fn columns() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let found = || {
        let out = io::stdout();
        let size = terminal_size::terminal_size_of(&out)?;
        Some(usize::from(size.0.0))
    };
    said.or_else(found).map(|width: usize| width.max(40))
}
