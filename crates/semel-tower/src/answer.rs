//! An answer as it is kept.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, PROXY_AUTHENTICATE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use semel_core::json::Json;
use semel_core::limits;
use serde::{Deserialize, Serialize};

/// Says that an answer is that of an earlier request.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What is kept of the first request and its answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Of the request.
    pub fingerprint: String,
    /// The answer; absent if it was too large.
    answer: Option<Answer>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Kept {
    /// What to keep of an answer. One that the store would not take is kept as the fact that there was one.
    pub fn new(fingerprint: String, status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Self {
        let headers = headers
            .iter()
            .filter(|(name, _)| is_of_the_answer(name))
            .map(|(name, value)| (name.to_string(), written(value.as_bytes())))
            .collect();
        let answer = Answer {
            status: status.as_u16(),
            headers,
            body: written(body),
        };
        let kept = Kept {
            fingerprint: fingerprint.clone(),
            answer: Some(answer),
        };
        match Json::of(&kept).is_ok_and(|json| json.as_str().len() <= limits::OUTPUT_BYTES) {
            true => kept,
            false => Kept::without_answer(fingerprint),
        }
    }

    /// The fact that there was an answer.
    pub fn without_answer(fingerprint: String) -> Self {
        Kept {
            fingerprint,
            answer: None,
        }
    }

    /// The answer again; `None` if it was too large, or cannot be read.
    pub fn replay(self) -> Option<Response<Bytes>> {
        let answer = self.answer?;
        let mut response = Response::new(read(&answer.body)?.into());
        *response.status_mut() = StatusCode::from_u16(answer.status).ok()?;
        for (name, value) in &answer.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let value = HeaderValue::from_bytes(&read(value)?).ok()?;
            response.headers_mut().append(name, value);
        }
        response
            .headers_mut()
            .insert(REPLAYED, HeaderValue::from_static("true"));
        Some(response)
    }
}

/// Headers that are about one connection are no part of an answer.
fn is_of_the_answer(name: &HeaderName) -> bool {
    ![
        CONNECTION,
        PROXY_AUTHENTICATE,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ]
    .contains(name)
        && name != "keep-alive"
}

/// Text as it is, anything else in base 64; the first letter says which.
fn written(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("t{text}"),
        Err(_) => format!("b{}", STANDARD.encode(bytes)),
    }
}

fn read(text: &str) -> Option<Vec<u8>> {
    match text.split_at_checked(1)? {
        ("t", text) => Some(text.as_bytes().to_vec()),
        ("b", encoded) => STANDARD.decode(encoded).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_byte_for_byte() {
        let mut headers = HeaderMap::new();
        headers.append("set-cookie", HeaderValue::from_static("a=1"));
        headers.append("set-cookie", HeaderValue::from_static("b=2"));
        headers.append("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        headers.append("transfer-encoding", HeaderValue::from_static("chunked"));
        for body in [
            &b"{\"a\": 1.0}\n"[..],
            b"",
            b"\x00\xff\xfe",
            "é\u{202e}\0".as_bytes(),
        ] {
            let kept = Kept::new(
                "f".to_owned(),
                StatusCode::CREATED,
                &headers,
                &Bytes::copy_from_slice(body),
            );
            let stored = Json::of(&kept).unwrap();
            let back = stored.read::<Kept>().unwrap().replay().unwrap();
            assert_eq!((back.status(), &back.body()[..]), (StatusCode::CREATED, body));
            let cookies: Vec<_> = back.headers().get_all("set-cookie").iter().collect();
            assert_eq!(cookies, ["a=1", "b=2"]);
            assert_eq!(back.headers()["x-latin"].as_bytes(), b"caf\xe9");
            assert_eq!(back.headers()[REPLAYED], "true");
            assert!(!back.headers().contains_key("transfer-encoding"));
        }
    }

    #[test]
    fn what_the_store_would_not_take_is_kept_as_a_fact() {
        let large = Bytes::from(vec![0xff; limits::OUTPUT_BYTES]);
        let kept = Kept::new("f".to_owned(), StatusCode::OK, &HeaderMap::new(), &large);
        assert_eq!(kept.fingerprint, "f");
        assert!(kept.replay().is_none());
    }
}
