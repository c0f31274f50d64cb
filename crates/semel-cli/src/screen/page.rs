//! A page: lines, fields, tables and hints, gathered and then said at once.

use std::fmt::Write as _;

use semel_core::time::Timestamp;

use crate::screen::style::{Tone, paint};
use crate::screen::table::{Column, Table};
use semel_server::text::clean;
use semel_server::when::{exact, relative};

/// What a command says to a person.
#[derive(Debug)]
pub struct Page {
    text: String,
    width: Option<usize>,
    now: Timestamp,
}

impl Page {
    /// An empty page of a width, at a moment.
    pub fn new(width: Option<usize>, now: Timestamp) -> Self {
        Page {
            text: String::new(),
            width,
            now,
        }
    }

    /// Everything so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The moment all relative times on the page count from.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// How many columns there are; many, if nobody counts them.
    pub fn width(&self) -> usize {
        self.width.unwrap_or(200)
    }

    /// One line as it is.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// An empty line, but never two.
    pub fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// A heading over what follows.
    pub fn heading(&mut self, text: impl AsRef<str>) {
        self.blank();
        self.line(paint(Tone::Strong, clean(text.as_ref())));
    }

    /// A sentence behind a painted first word, broken at the edge of the screen.
    pub fn sentence(&mut self, tone: Tone, first: &str, text: &str) {
        for (at, line) in text.lines().enumerate() {
            let lead = if at == 0 { first } else { "" };
            self.paragraph(tone, lead, line, first.chars().count());
        }
    }

    fn paragraph(&mut self, tone: Tone, lead: &str, text: &str, indent: usize) {
        let room = self
            .width
            .unwrap_or(usize::MAX)
            .saturating_sub(indent + 1)
            .max(20);
        for (at, line) in broken(&clean(text), room).into_iter().enumerate() {
            let gap = if indent == 0 { "" } else { " " };
            let lead = match at {
                0 => format!(
                    "{}{:pad$}",
                    paint(tone, lead),
                    "",
                    pad = indent - lead.chars().count()
                ),
                _ => format!("{:indent$}", ""),
            };
            self.line(format!("{lead}{gap}{line}").trim_end());
        }
    }

    /// What to do next.
    pub fn hint(&mut self, text: impl AsRef<str>) {
        self.sentence(Tone::Hint, "hint:", text.as_ref());
    }

    /// A plain sentence.
    pub fn say(&mut self, text: impl AsRef<str>) {
        self.sentence(Tone::Plain, "", text.as_ref());
    }

    /// Names and values side by side.
    pub fn fields(&mut self, fields: Vec<(&'static str, String)>) {
        let mut table = Table::new([Column::left(""), Column::wide("")]);
        for (name, value) in fields {
            table.row([paint(Tone::Quiet, name), value]);
        }
        let text = table.render(self.width, 2);
        self.text.push_str(&text);
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        let text = table.render(self.width, 0);
        self.text.push_str(&text);
    }

    /// A moment, relative and exact.
    pub fn when(&self, at: Timestamp) -> String {
        let mut text = relative(at, self.now);
        let _ = write!(text, " ({})", exact(at));
        text
    }

    /// A moment, relative.
    pub fn ago(&self, at: Timestamp) -> String {
        relative(at, self.now)
    }
}

/// Breaks at spaces; a word that is too long stands over the edge rather than being cut, so that it can be copied.
fn broken(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("there is always a line");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_at_words_and_hang_below_their_first() {
        let mut page = Page::new(Some(30), Timestamp::default());
        page.sentence(Tone::Plain, "hint:", "one two three four five six seven");
        assert_eq!(page.text(), "hint: one two three four five\n      six seven\n");
        assert_eq!(
            broken("averyveryverylongword b", 5),
            ["averyveryverylongword", "b"]
        );
    }
}
