//! Stopping in order: no new work, running jobs finish, the rest is handed back (contract 4.3).

use tokio::sync::watch;

/// How far a worker's stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It works.
    Working,
    /// It takes no new jobs; those that run may finish.
    Finishing,
    /// No job runs any more; what is left to tell is told.
    Leaving,
}

/// The one signal that everything a worker started listens to.
pub(crate) struct Stop {
    stage: watch::Sender<Stage>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Stop {
            stage: watch::Sender::new(Stage::Working),
        }
    }

    /// Moves on to a stage; never back.
    pub(crate) fn go_to(&self, stage: Stage) {
        self.stage.send_if_modified(|current| {
            let later = *current < stage;
            if later {
                *current = stage;
            }
            later
        });
    }

    pub(crate) fn is_at(&self, stage: Stage) -> bool {
        *self.stage.borrow() >= stage
    }

    /// Waits for a stage.
    pub(crate) async fn comes_to(&self, stage: Stage) {
        let mut watching = self.stage.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = watching.wait_for(|current| *current >= stage).await;
    }
}

/// Waits for the request to stop that operating systems and people send: SIGTERM or SIGINT.
#[cfg(unix)]
pub(crate) async fn requested() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return interrupted().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        () = interrupted() => {}
    }
}

/// Waits for the request to stop: Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn requested() {
    interrupted().await;
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without signals nobody can ask; the worker runs until its process ends.
        std::future::pending::<()>().await;
    }
}
