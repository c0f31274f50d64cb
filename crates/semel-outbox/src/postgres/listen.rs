//! Hears of committed events.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A connection of its own that listens, and is made again when it breaks. Missing a notification costs time only:
/// a relay looks by itself every now and then.
#[derive(Debug)]
pub struct Listener {
    heard: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Listens from now on.
    pub fn start(config: Config, tls: MakeRustlsConnect) -> Self {
        let heard = Arc::new(Notify::new());
        let task = tokio::spawn(listen(config, tls, heard.clone()));
        Listener { heard, task }
    }

    /// Returns once something was heard since the last time, or after a while.
    pub async fn heard(&self, at_most: Duration) {
        let _ = tokio::time::timeout(at_most, self.heard.notified()).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(config: Config, tls: MakeRustlsConnect, heard: Arc<Notify>) {
    loop {
        if let Err(error) = listen_once(&config, &tls, &heard).await {
            tracing::debug!(%error, "notifications of the outbox are not heard; listening again soon");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn listen_once(
    config: &Config,
    tls: &MakeRustlsConnect,
    heard: &Notify,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(tls.clone()).await?;
    let asking = client.batch_execute("LISTEN semel_outbox");
    tokio::pin!(asking);
    let mut listening = false;
    loop {
        let message = tokio::select! {
            asked = &mut asking, if !listening => {
                asked?;
                listening = true;
                // Something may have been committed before anybody listened.
                heard.notify_one();
                continue;
            }
            message = poll_fn(|context| connection.poll_message(context)) => message,
        };
        match message {
            Some(Ok(AsyncMessage::Notification(_))) => heard.notify_one(),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        }
    }
}
