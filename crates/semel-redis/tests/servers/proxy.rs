//! A way to the server that loses replies, or brings them late: the write has been applied, and the caller cannot know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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
}

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

    /// Replies lost so far.
    pub fn cuts(&self) -> u32 {
        self.orders.cuts.load(Ordering::SeqCst)
    }

    /// Where it is.
    pub fn port(&self) -> u16 {
        self.port
    }
}

async fn carry(near: TcpStream, far: TcpStream, orders: Arc<Orders>) {
    let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
    let written = Arc::new(AtomicBool::new(false));
    let seen = written.clone();
    let there = async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(read @ 1..) = near_in.read(&mut buffer).await {
            // Only writes name what a handle has applied, the places or what is completed.
            let names = |name: &[u8]| buffer[..read].windows(name.len()).any(|part| part == name);
            let is_write =
                names(b"applied:") || (names(b"EVALSHA") && (names(b":places") || names(b":completed")));
            seen.store(is_write, Ordering::SeqCst);
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
