//! `semel keys`

mod find;
mod list;
mod release;
mod show;

pub use find::{find, short};
pub use show::ledger_table;

use clap::Subcommand;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;

/// `semel keys …`
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// List keys, those taken last first
    List(list::ListArgs),
    /// Show a key: its holder, and every submission it absorbed
    Show(show::ShowArgs),
    /// Free keys by hand, on record
    Release(release::ReleaseArgs),
}

/// Carries out a command.
pub async fn run(command: KeysCommand, session: &Session) -> Result<Exit, Problem> {
    match command {
        KeysCommand::List(args) => list::run(args, session).await,
        KeysCommand::Show(args) => show::run(args, session).await,
        KeysCommand::Release(args) => release::run(args, session).await,
    }
}
