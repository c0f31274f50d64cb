//! The stable codes, each with its status, and its page.

/// A code, and what a person needs to know about it.
#[derive(Debug)]
pub struct Code {
    /// The word machines compare with. It never changes its meaning.
    pub word: &'static str,
    /// The status it comes with.
    pub status: u16,
    /// A few words.
    pub title: &'static str,
    /// When it is answered.
    pub when: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

impl Code {
    /// The code of a word; one that is not listed is a mistake of this server's own.
    pub fn named(word: &str) -> &'static Code {
        CODES
            .iter()
            .find(|code| code.word == word)
            .unwrap_or(&CODES[CODES.len() - 1])
    }
}

macro_rules! codes {
    ($($word:literal $status:literal $title:literal, $when:literal, $remedy:literal;)+) => {
        /// Every code there is. The last one stands for all that should not happen.
        pub const CODES: &[Code] = &[$(Code {
            word: $word,
            status: $status,
            title: $title,
            when: $when,
            remedy: $remedy,
        }),+];
    };
}

codes! {
    "invalid" 400 "The request makes no sense",
        "A member is missing, unknown, out of bounds, or two of them contradict each other. Nothing was written.",
        "The detail says what is allowed.";
    "unauthorized" 401 "No valid token",
        "The request carries no token, or one that is unknown, revoked or has run out.",
        "Send Authorization: Bearer TOKEN; semel tokens create makes one.";
    "forbidden" 403 "The token may not do this",
        "The token is good, but its roles do not allow this route, or it is bound to other queues.",
        "The table of routes and roles says which role is needed.";
    "cross_origin" 403 "The request comes from another site",
        "A browser sent a change for a page of another origin, or such a page had it look at something.",
        "Programs need no Origin header; pages have to be this server's own.";
    "not_found" 404 "There is no such thing",
        "No job, key, queue, schedule, operation or route of that name. It may have outlived its retention.",
        "Look at the list it should be in.";
    "method_not_allowed" 405 "The route knows no such method",
        "The route exists, but not with this method.",
        "The Allow header and /openapi.json say which it knows.";
    "timeout" 408 "The request took too long to arrive",
        "The body did not arrive in time.",
        "Send it faster, or in smaller parts.";
    "duplicate_rejected" 409 "The key is held",
        "The policy rejects duplicates, and the job in holder has the key. Also the answer to a retry or replay whose key another job holds.",
        "Use the holder, wait until it has ended, or use another key.";
    "terminal" 409 "It has ended",
        "A job that has ended is final; its state is in state. So is a bulk act that is done.",
        "Retry a failed or cancelled job, replay a dead letter, or submit again.";
    "not_terminal" 409 "The job has not ended",
        "Only a failed or cancelled job can be retried or replayed, only one that has ended can be deleted.",
        "Cancel it first, or wait.";
    "replayed" 409 "The job was replayed",
        "The job's work goes on in the job in replayed_as.",
        "Act on that one.";
    "holder_changed" 409 "Another job holds the key now",
        "The key is no longer held by the job that was meant; nothing was released.",
        "Look at the key again, and name the holder you mean.";
    "no_subscribers" 409 "Nobody is subscribed to the event",
        "The event would be lost.",
        "Subscribe a task first, or say allow_none.";
    "not_in_doubt" 409 "The step is not in doubt",
        "Somebody is at it, or it is decided.",
        "Look at the steps of the job.";
    "not_yours" 409 "The reservation is not yours",
        "The token is not the one that reserved the key, or the reservation has lapsed.",
        "Reserve again.";
    "under_way" 409 "The operation is under way",
        "Somebody is carrying out this plan.",
        "Look at its progress, or abort it.";
    "not_unique" 409 "There is one already",
        "A token of that name exists.",
        "Use another name, or revoke it first.";
    "too_large" 413 "The body is too large",
        "A body may have 1 MiB, a batch 16 MiB.",
        "Send less at once; large inputs belong in a store of their own.";
    "not_json" 415 "The body is not JSON",
        "Only application/json is read, and no compressed bodies.",
        "Send Content-Type: application/json.";
    "wrong_host" 421 "The Host is not one of this server's",
        "The Host header names neither an address this server listens on nor a name it was given.",
        "Start the server with --host NAME if it is reached by that name.";
    "idempotency_conflict" 422 "The key was used for something else",
        "The key is held by a job of another task or another input; differs names the JSON pointers, where the token may read.",
        "Use another key for other work.";
    "too_many" 429 "Too many at once",
        "This token has as many long polls or streams open as it may.",
        "Close some, or wait as Retry-After says.";
    "store_unavailable" 503 "The store is out of reach",
        "The store did not answer. Whether the call was applied is unknown; with the same token or key it is safe to repeat.",
        "Try again after Retry-After; semel doctor looks at the stored data.";
    "outbox_unavailable" 503 "The outbox is out of reach",
        "The database with the outbox that this server relays did not answer. The store itself may be well.",
        "Look at that database; the relay goes on by itself once it answers.";
    "closed" 503 "No submissions are taken",
        "Somebody closed the intake of the queue or task in target.",
        "Try again later; semel queues open lets submissions in again.";
    "busy" 503 "The server is full",
        "As many long polls or streams are open, or as many large bodies are under way, as the server bears.",
        "Try again after Retry-After.";
    "internal" 500 "The server made a mistake",
        "Something happened that should not.",
        "The log has more under this request_id.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once_and_the_last_is_the_unexpected_one() {
        for code in CODES {
            assert_eq!(
                CODES.iter().filter(|other| other.word == code.word).count(),
                1,
                "{}",
                code.word
            );
            assert!((400..600).contains(&code.status));
        }
        assert_eq!(Code::named("no such code").word, "internal");
    }
}
