//! A client that asks and does not take the answer is not waited for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long the other side may take nothing of what is written to it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that ends if nothing of what is written is taken for [`PATIENCE`].
pub struct Patience<S> {
    stream: S,
    longest: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patience<S> {
    /// With a connection.
    pub fn with(stream: S) -> Self {
        Patience {
            stream,
            longest: PATIENCE,
            stalled: None,
        }
    }

    fn weigh<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let longest = self.longest;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(longest)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not take its answer",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.weigh(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.weigh(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.weigh(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.weigh(shut, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn who_takes_nothing_is_left_and_who_takes_little_is_not() {
        let (mut reader, writer) = duplex(16);
        let mut patience = Patience {
            longest: Duration::from_millis(80),
            ..Patience::with(writer)
        };
        let writing = async {
            let written = patience.write_all(&[7; 64]).await;
            (written, patience.write_all(&[7; 64]).await)
        };
        let reading = async {
            let mut some = [0; 16];
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_millis(40)).await;
                reader.read_exact(&mut some).await.expect("it is written");
            }
        };
        let ((slow, stuck), ()) = tokio::join!(writing, reading);
        slow.expect("each piece was taken in time");
        assert_eq!(
            stuck.expect_err("nobody takes it").kind(),
            io::ErrorKind::TimedOut
        );
    }
}
