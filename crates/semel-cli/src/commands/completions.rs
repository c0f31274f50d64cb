//! `semel completions`

use clap::Args;
use clap_complete::Shell;

use crate::args;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::screen::Screen;

/// Arguments of `semel completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Bash:  semel completions bash > ~/.local/share/bash-completion/completions/semel
Zsh:   semel completions zsh > \"${fpath[1]}/_semel\"
Fish:  semel completions fish > ~/.config/fish/completions/semel.fish")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Writes the script.
pub fn run(args: CompletionsArgs, screen: &Screen) -> Result<Exit, Problem> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "semel", &mut script);
    screen.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
