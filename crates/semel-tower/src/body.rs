//! Bodies that are passed on, or have been read.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// The body of a request or an answer that went through the layer: what was read of it, then what was not.
#[derive(Debug)]
pub struct LayerBody<B> {
    head: Option<Bytes>,
    rest: Option<B>,
}

impl<B> LayerBody<B> {
    /// A body that was not looked at.
    pub(crate) fn passed(body: B) -> Self {
        LayerBody {
            head: None,
            rest: Some(body),
        }
    }

    /// A body that is known whole.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        LayerBody {
            head: Some(bytes),
            rest: None,
        }
    }

    /// The beginning of a body, and what is left of it.
    pub(crate) fn long(head: Bytes, rest: B) -> Self {
        LayerBody {
            head: Some(head),
            rest: Some(rest),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for LayerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(head) = self.head.take().filter(|head| !head.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.head.as_ref().is_none_or(Bytes::is_empty) && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let head = self.head.as_ref().map_or(0, |head| head.len() as u64);
        let Some(rest) = &self.rest else {
            return SizeHint::with_exact(head);
        };
        let behind = rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(head + behind.lower());
        if let Some(upper) = behind.upper() {
            hint.set_upper(head + upper);
        }
        hint
    }
}

/// What came of reading a body.
pub(crate) enum Whole<B> {
    /// All of it.
    Bytes(Bytes),
    /// More than was to be read: what was read, and what is left.
    TooMuch(Bytes, B),
}

/// Reads a body up to a bound. Trailers are left out: they are no part of what is compared or kept.
pub(crate) async fn whole<B>(mut body: B, most: usize) -> Result<Whole<B>, B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > most {
            return Ok(Whole::TooMuch(read.into(), body));
        }
    }
    Ok(Whole::Bytes(read.into()))
}
