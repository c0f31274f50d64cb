//! What Resque writes into its lists: `{"class":"SendMail","args":[…]}`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use semel_core::dedup::Dedup;
use semel_core::error::Invalid;
use semel_core::ids::{Name, Token};
use semel_core::json::Json;
use semel_core::submission::Submission;

#[derive(Deserialize)]
struct Payload<'a> {
    class: String,
    /// Kept as text: numbers stay as they were written.
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// The submission a payload stands for: its class is the task, its arguments are the input.
pub fn submission(
    queue: &Name,
    unique: bool,
    token: Token,
    time: &str,
    payload: &[u8],
) -> Result<Submission, Invalid> {
    let wrong = |found: String| Invalid::new("payload of Resque", r#"{"class":"…","args":[…]}"#).found(found);
    let payload: Payload<'_> = serde_json::from_slice(payload).map_err(|error| wrong(error.to_string()))?;
    let input = Json::new(payload.args.map_or("[]", RawValue::get))?;
    let mut submission = Submission::new(token, Name::new(&payload.class)?, input);
    submission.queue = queue.clone();
    submission.producer = Some(Name::new("resque")?);
    if unique {
        submission.policy = Dedup::of_unique_queue().into();
    }
    if !time.is_empty() {
        submission
            .content
            .headers
            .insert(START_AT.to_owned(), time.to_owned());
    }
    Ok(submission)
}

/// The header with the time resque-uniqueue noted for a payload, in seconds since 1970.
pub const START_AT: &str = "resque-start-at";

/// The payload a job stands for. An input that is no array is the only argument.
pub fn of_job(task: &Name, input: &Json) -> String {
    let class = serde_json::Value::from(task.as_str());
    let args = input.as_str();
    match args.trim_start().starts_with('[') {
        true => format!(r#"{{"class":{class},"args":{args}}}"#),
        false => format!(r#"{{"class":{class},"args":[{args}]}}"#),
    }
}

#[derive(Serialize)]
struct Failed<'a> {
    failed_at: String,
    payload: &'a serde_json::Value,
    exception: &'static str,
    error: String,
    backtrace: [&'static str; 0],
    worker: &'static str,
    queue: &'a str,
}

/// What Resque's own tools show of a payload that nobody can run.
pub fn failed(queue: &Name, seconds: i64, payload: &[u8], error: &Invalid) -> String {
    let text = String::from_utf8_lossy(payload);
    let payload = serde_json::from_slice(payload).unwrap_or_else(|_| text.as_ref().into());
    let at = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let failed = Failed {
        failed_at: at.strftime("%Y/%m/%d %H:%M:%S UTC").to_string(),
        payload: &payload,
        exception: "Semel::Invalid",
        error: error.to_string(),
        backtrace: [],
        worker: "semel bridge",
        queue: queue.as_str(),
    };
    serde_json::to_string(&failed).expect("texts and values are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn read(payload: &str) -> Result<Submission, Invalid> {
        let token = Token::from_parts(1, &[0; 10]);
        submission(&name("mail"), false, token, "", payload.as_bytes())
    }

    #[test]
    fn a_payload_and_its_job_mean_the_same() {
        let payload = r#"{"class":"Mail::Send","args":[12345678901234567890,1.50,{"b":1,"a":"é"}]}"#;
        let submission = read(payload).unwrap();
        assert_eq!(submission.task, name("Mail::Send"));
        assert_eq!(submission.queue, name("mail"));
        assert_eq!(of_job(&submission.task, &submission.content.input), payload);
    }

    #[test]
    fn arguments_may_be_missing_and_an_input_need_not_be_an_array() {
        assert_eq!(read(r#"{"class":"A"}"#).unwrap().content.input.as_str(), "[]");
        let input = Json::new(r#"{"n":1}"#).unwrap();
        assert_eq!(of_job(&name("A"), &input), r#"{"class":"A","args":[{"n":1}]}"#);
    }

    #[test]
    fn what_is_no_payload_is_refused_with_what_is_allowed() {
        for wrong in [
            "",
            "x",
            "[]",
            r#"{"args":[]}"#,
            r#"{"class":""}"#,
            r#"{"class":7}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let error = read("x").unwrap_err();
        let failed: serde_json::Value =
            serde_json::from_str(&super::failed(&name("mail"), 0, b"x\xff", &error)).unwrap();
        assert_eq!(failed["failed_at"], "1970/01/01 00:00:00 UTC");
        assert_eq!(failed["payload"], "x\u{fffd}");
    }
}
