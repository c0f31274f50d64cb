//! The input of a submission: typed, piped, or read from a file.

use std::io::Read;

use semel_core::error::Invalid;
use semel_core::json::Json;
use semel_core::limits;

use crate::problem::Problem;

/// JSON as it was typed; `-` reads the standard input, `@FILE` a file. Nothing at all is `null`.
pub fn read(said: Option<&str>) -> Result<Json, Problem> {
    let text = match said {
        None => return Ok(Json::null()),
        Some("-") => from_stdin()?,
        Some(said) => match said.strip_prefix('@') {
            Some(path) => from_file(path)?,
            None => said.to_owned(),
        },
    };
    Json::new(text.trim()).map_err(|invalid| not_json(said.unwrap_or_default(), invalid))
}

fn not_json(said: &str, invalid: Invalid) -> Problem {
    let place = match said {
        "-" => "the input on stdin".to_owned(),
        said if said.starts_with('@') => format!("the input in {}", &said[1..]),
        _ => "the input".to_owned(),
    };
    let why = invalid.found.clone().unwrap_or_else(|| invalid.to_string());
    let problem = Problem::usage(format!("{place} is not JSON: {why}"));
    if std::path::Path::new(said).is_file() {
        return problem.hint(format!("to read the file, write @{said}"));
    }
    problem
        .hint("a text has to be quoted twice: '\"text\"'; a shell eats the quotes of {\"a\":1} without '…'")
}

fn from_stdin() -> Result<String, Problem> {
    let mut text = String::new();
    let most = limits::INPUT_BYTES as u64 + 4_096;
    std::io::stdin()
        .lock()
        .take(most)
        .read_to_string(&mut text)
        .map_err(|error| Problem::usage(format!("the input on stdin cannot be read: {error}")))?;
    Ok(text)
}

fn from_file(path: &str) -> Result<String, Problem> {
    std::fs::read_to_string(path).map_err(|error| {
        Problem::usage(format!("the input {path:?} cannot be read: {error}"))
            .hint("@FILE reads a file, - reads stdin, anything else is taken as JSON")
    })
}
