//! Asking before something that cannot be taken back.

use std::io::{BufRead, Write};

use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::capital;
use crate::session::Session;

/// What a person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Yes,
    /// Leave it.
    No,
}

/// Asks, unless `yes` was said before. Nobody there to ask means no.
pub fn agree(question: &str, yes: bool, session: &Session) -> Answer {
    if yes {
        return Answer::Yes;
    }
    if !session.screen.can_ask() {
        return Answer::No;
    }
    let mut err = anstream::stderr();
    let _ = write!(err, "{question} [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" if read.is_ok() => Answer::Yes,
        _ => Answer::No,
    }
}

/// Goes on if `yes` was said or a person agrees to what is about to happen.
pub fn ask(plan: &str, yes: bool, session: &Session) -> Result<(), Problem> {
    if !yes && !session.screen.can_ask() {
        return Err(Problem::new(
            Exit::NotPermitted,
            "not_confirmed",
            format!("not confirmed: {plan}"),
        )
        .hint("nothing was done; add --yes to carry it out"));
    }
    match agree(&format!("{}. Go on?", capital(plan)), yes, session) {
        Answer::Yes => Ok(()),
        Answer::No => Err(Problem::new(
            Exit::NotPermitted,
            "not_confirmed",
            "nothing was done",
        )),
    }
}
