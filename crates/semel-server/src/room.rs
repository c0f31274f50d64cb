//! Bodies that are under way take memory, and a client can make that last: so many bytes for all of them together.
//!
//! Small ones are not counted. There are never more of them than connections, and whoever is decent sends and gets
//! little: it is served while somebody else has taken all the room there is.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

/// Bytes of all large bodies, of requests and of answers.
pub const BYTES: usize = 256 * 1024 * 1024;
/// What is not counted of a body.
pub const SMALL: usize = 64 * 1024;

/// The room for large bodies.
#[derive(Clone, Debug)]
pub struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Room(Arc::new(Semaphore::new(BYTES)))
    }
}

impl Room {
    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let taken = self.0.clone().try_acquire_many_owned(bytes);
        taken.map_err(|_| {
            let detail = format!("large bodies take {BYTES} bytes, as many as the server keeps at once");
            Problem::new("busy", detail).retry_after(5)
        })
    }

    /// Counts a large answer until it is sent, or takes its place with a refusal.
    pub fn hold_answer(&self, response: Response) -> Response {
        self.hold(response).unwrap_or_else(IntoResponse::into_response)
    }

    /// The same for whoever has something to do where there is no room. An answer that is counted is not counted again.
    pub fn hold(&self, response: Response) -> Result<Response, Problem> {
        let length = response.body().size_hint().exact();
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
            return Ok(response);
        };
        if length <= SMALL {
            return Ok(response);
        }
        let taken = self.take(length)?;
        let (mut head, body) = response.into_parts();
        // The frames no longer tell how many bytes are to come.
        head.headers
            .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        let body = body.map_frame(move |frame| {
            let _until_it_is_sent = &taken;
            frame
        });
        Ok(Response::from_parts(head, Body::new(body)))
    }
}

/// What one request has taken of the room. It is given back with the request's end.
#[derive(Clone, Debug, Default)]
pub struct Held(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Held {
    /// Takes room for a piece of a body that has become `length` bytes long with it.
    pub fn grow(&self, room: &Room, length: usize, piece: usize) -> Result<(), Problem> {
        if length <= SMALL {
            return Ok(());
        }
        let more = room.take(piece)?;
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_mut() {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_share_a_room_and_small_ones_need_none() {
        let room = Room::default();
        let one = Held::default();
        one.grow(&room, SMALL + BYTES, BYTES).expect("all there is");
        let other = Held::default();
        other.grow(&room, SMALL, SMALL).expect("a small one needs none");
        let full = other.grow(&room, SMALL + 1, 1).expect_err("it is full");
        assert_eq!(full.code(), "busy");
        drop(one);
        other.grow(&room, SMALL + 1, 1).expect("it was given back");
    }

    #[tokio::test]
    async fn an_answer_counts_until_it_is_sent() {
        let room = Room::default();
        let large = || Response::new(Body::from(vec![7; BYTES]));
        let first = room.hold_answer(room.hold(large()).expect("all there is"));
        assert_eq!(first.headers()[header::CONTENT_LENGTH], BYTES.to_string());
        let refused = room.hold_answer(large()).extensions_mut().remove::<Problem>();
        assert_eq!(refused.expect("no room").code(), "busy");
        let small = room.hold_answer(Response::new(Body::from("small")));
        assert_eq!(
            small.into_body().collect().await.expect("a body").to_bytes(),
            "small"
        );
        assert_eq!(
            first
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes()
                .len(),
            BYTES
        );
        assert!(room.hold_answer(large()).extensions().get::<Problem>().is_none());
    }
}
