//! Carrying out a plan while somebody watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use semel::{Client, Operation, Operator};

use crate::problem::Problem;
use crate::session::Session;

/// Carries a plan out with progress; an interrupt stops it after the step under way.
pub async fn carry_out(
    plan: &Operation,
    rate: Option<u32>,
    client: &Client,
    operator: &Operator,
    session: &Session,
) -> Result<Operation, Problem> {
    let carrying = operator.carry_out(&plan.id);
    let carrying = rate
        .into_iter()
        .fold(carrying, |carrying, rate| carrying.rate(rate));
    let carrying = carrying.into_future();
    tokio::pin!(carrying);
    let bar = session.screen.is_watched().then(|| bar(plan.total));
    loop {
        tokio::select! {
            done = &mut carrying => {
                if let Some(bar) = bar {
                    bar.finish_and_clear();
                }
                return Ok(done?);
            }
            Ok(()) = tokio::signal::ctrl_c() => {
                session.screen.note("stopping after the step that is under way");
                operator.abort(&plan.id).await?;
            }
            () = tokio::time::sleep(Duration::from_millis(200)), if bar.is_some() => {
                if let (Some(bar), Ok(now)) = (&bar, client.operation(&plan.id).await) {
                    bar.set_position(now.progress.seen());
                }
            }
        }
    }
}

fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos}/{human_len}  {eta} left") {
        bar.set_style(style);
    }
    bar
}
