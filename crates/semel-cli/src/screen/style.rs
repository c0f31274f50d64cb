//! A few tones, used sparingly: a page has to read well without them.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use semel_core::job::State;

/// What a piece of text is meant to say by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// A heading.
    Strong,
    /// Beside the point.
    Quiet,
    /// As it should be.
    Good,
    /// Under way.
    Busy,
    /// Wants a look.
    Warn,
    /// Wrong.
    Bad,
    /// What to do.
    Hint,
}

impl Tone {
    fn style(self) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        match self {
            Tone::Plain => Style::new(),
            Tone::Strong => Style::new().bold(),
            Tone::Quiet => Style::new().dimmed(),
            Tone::Good => color(AnsiColor::Green),
            Tone::Busy => color(AnsiColor::Blue),
            Tone::Warn => color(AnsiColor::Yellow),
            Tone::Bad => color(AnsiColor::Red).bold(),
            Tone::Hint => color(AnsiColor::Cyan).bold(),
        }
    }
}

/// Text in a tone. The escape codes are taken out again where nobody sees colour.
pub fn paint(tone: Tone, text: impl Display) -> String {
    if tone == Tone::Plain {
        return text.to_string();
    }
    let style = tone.style();
    format!("{style}{text}{style:#}")
}

/// The tone of a state.
pub fn state_tone(state: State) -> Tone {
    match state {
        State::Scheduled | State::Deferred => Tone::Quiet,
        State::Queued => Tone::Plain,
        State::Running => Tone::Busy,
        State::Parked => Tone::Warn,
        State::Complete => Tone::Good,
        State::Failed => Tone::Bad,
        State::Cancelled => Tone::Quiet,
    }
}
