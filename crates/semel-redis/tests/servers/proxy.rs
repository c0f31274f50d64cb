//! A way to the server that loses replies, or brings them late: the write has been applied, and the caller cannot know.
//! It can also hold a request back until something else has happened.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::server::Server;

/// A way to the server that, when told so, hands a write on and cuts the line instead of giving its reply.
pub struct Proxy {
    port: u16,
    orders: Arc<Orders>,
}

/// What it is told to do, and what it has done.
#[derive(Default)]
struct Orders {
    cut: AtomicBool,
    cuts: AtomicU32,
    late_by_ms: AtomicU64,
    hold: Mutex<Option<Which>>,
    held: Notify,
    released: Notify,
}

/// Tells a request to be held back, as far as it was read at once.
type Which = Box<dyn FnMut(&[u8]) -> bool + Send>;

impl Proxy {
    /// Starts it in front of a server.
    pub async fn start(server: &Server) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let orders = Arc::<Orders>::default();
        let (target, told) = (server.port(), orders.clone());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(("127.0.0.1", target))
                    .await
                    .expect("the server runs");
                tokio::spawn(carry(near, far, told.clone()));
            }
        });
        Proxy { port, orders }
    }

    /// The next write is applied and its reply lost.
    pub fn lose_the_next_reply(&self) {
        self.orders.cut.store(true, Ordering::SeqCst);
    }

    /// From now on replies come so much later.
    pub fn late_by(&self, millis: u64) {
        self.orders.late_by_ms.store(millis, Ordering::SeqCst);
    }

    /// The first request of which this is said is held back.
    pub fn hold(&self, which: impl FnMut(&[u8]) -> bool + Send + 'static) {
        *self.orders.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(which));
    }

    /// Waits until one is.
    pub async fn has_held(&self) {
        let held = tokio::time::timeout(Duration::from_secs(10), self.orders.held.notified());
        held.await.expect("such a request comes");
    }

    /// Lets it go.
    pub fn release(&self) {
        self.orders.released.notify_one();
    }

    /// Replies lost so far.
    pub fn cuts(&self) -> u32 {
        self.orders.cuts.load(Ordering::SeqCst)
    }

    /// Where it is.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Orders {
    fn holds(&self, request: &[u8]) -> bool {
        let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = hold.as_mut().is_some_and(|which| which(request));
        if holds {
            *hold = None;
        }
        holds
    }
}

/// Whether all of this is in it.
pub fn has(request: &[u8], words: &[&str]) -> bool {
    let there = |word: &&str| request.windows(word.len()).any(|part| part == word.as_bytes());
    words.iter().all(there)
}

async fn carry(near: TcpStream, far: TcpStream, orders: Arc<Orders>) {
    let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
    let written = Arc::new(AtomicBool::new(false));
    let (seen, told) = (written.clone(), orders.clone());
    let there = async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(read @ 1..) = near_in.read(&mut buffer).await {
            // Only writes name what a handle has applied, the places or what is completed.
            let names = |name: &[u8]| buffer[..read].windows(name.len()).any(|part| part == name);
            let is_write =
                names(b"applied:") || (names(b"EVALSHA") && (names(b":places") || names(b":completed")));
            seen.store(is_write, Ordering::SeqCst);
            if told.holds(&buffer[..read]) {
                told.held.notify_one();
                told.released.notified().await;
            }
            if far_out.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    let back = async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(read @ 1..) = far_in.read(&mut buffer).await {
            if written.load(Ordering::SeqCst) && orders.cut.swap(false, Ordering::SeqCst) {
                orders.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let late_by = orders.late_by_ms.load(Ordering::SeqCst);
            if late_by > 0 {
                tokio::time::sleep(Duration::from_millis(late_by)).await;
            }
            if near_out.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}
