//! Hearing what other processes have changed. A task with a connection of its own, started by the first who waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::jittered;
use crate::link::Link;
use crate::tx::Signals;
use crate::wake::Wake;

/// The first wait before the channels are listened to again.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The longest.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long a caller waits for the channels to be listened to.
const PATIENCE: Duration = Duration::from_secs(1);

const EVERYTHING: Signals = Signals {
    work: true,
    ends: true,
};

/// The listener's handle. Dropping it stops the task.
pub struct Listener {
    link: Arc<Link>,
    wake: Arc<Wake>,
    channels: Vec<String>,
    hears: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    /// A listener that is not started.
    pub fn new(link: Arc<Link>, wake: Arc<Wake>, channels: Vec<String>) -> Self {
        Listener {
            link,
            wake,
            channels,
            hears: watch::Sender::new(false),
            task: Mutex::new(None),
        }
    }

    /// Starts the task if nobody has, and waits until it hears, but not for long.
    pub async fn ensure(&self) {
        let mut hears = self.hears.subscribe();
        {
            let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            if task.as_ref().is_none_or(JoinHandle::is_finished) {
                let (link, wake) = (self.link.clone(), self.wake.clone());
                *task = Some(tokio::spawn(serve(
                    link,
                    wake,
                    self.channels.clone(),
                    self.hears.clone(),
                )));
            }
        }
        let _late = tokio::time::timeout(PATIENCE, hears.wait_for(|hears| *hears)).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        task.into_iter().for_each(|task| task.abort());
    }
}

async fn serve(link: Arc<Link>, wake: Arc<Wake>, channels: Vec<String>, hears: watch::Sender<bool>) {
    let mut wait = FIRST_WAIT;
    loop {
        if let Ok(mut listener) = link.listener().await
            && listener.subscribe(&channels).await.is_ok()
        {
            wait = FIRST_WAIT;
            // Whatever was said before, nobody heard it.
            wake.signal(EVERYTHING);
            hears.send_replace(true);
            let mut messages = listener.into_on_message();
            while let Some(message) = messages.next().await {
                wake.hear(&message.get_payload::<String>().unwrap_or_default());
            }
        }
        hears.send_replace(false);
        tokio::time::sleep(jittered(wait)).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}
