//! `semel serve`

mod alerts;

pub use alerts::thresholds;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use semel::Client;
use semel_outbox::Plain;
use semel_server::tokens::{self, TokenRecord};
use semel_server::{Outbox, Server, Settings, load_tls};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::exit::Exit;
use crate::problem::Problem;
use crate::session::Session;
use crate::settings;

/// Where a server listens if nobody says otherwise.
const LISTEN: &str = "127.0.0.1:7077";

/// Arguments of `semel serve`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
On a loopback address (127.0.0.1, ::1) everybody on this machine may come in as
long as there is no token. On any other address it only starts with a token
(semel tokens create) and encrypted (--tls-cert, --tls-key), or with
--plain-http behind a proxy that encrypts.

With --outbox postgres://USER@HOST/DATABASE or sqlite:FILE events that were
committed there become jobs here, each once.

SIGTERM or Ctrl-C stops it in order.")]
pub struct ServeArgs {
    /// Where to listen [env: SEMEL_LISTEN] [default: 127.0.0.1:7077]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// A name this server is reached by; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// The certificate chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Listen beyond this machine without encryption
    #[arg(long)]
    pub plain_http: bool,
    /// A database whose outbox is relayed [env: SEMEL_OUTBOX]
    #[arg(long, value_name = "URL")]
    pub outbox: Option<String>,
    /// Let its password travel unencrypted to another machine
    #[arg(long)]
    pub outbox_plain: bool,
}

/// Serves until told to stop.
pub async fn run(args: ServeArgs, session: &Session) -> Result<Exit, Problem> {
    let args = args.or(&session.settings)?;
    let client = session.create_to_serve().await?;
    serve(&args, client, session).await
}

impl ServeArgs {
    /// These, then the environment, then what the file says.
    fn or(mut self, settings: &settings::Settings) -> Result<Self, Problem> {
        let file = &settings.file.server;
        let from_environment = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        self.listen = self
            .listen
            .or_else(|| from_environment("SEMEL_LISTEN"))
            .or_else(|| file.listen.clone());
        self.outbox = self.outbox.or_else(|| from_environment("SEMEL_OUTBOX"));
        if let (None, Some(url)) = (&self.outbox, &file.outbox) {
            self.outbox = Some(settings::absolute(url, &settings.beside_file(Path::new("")))?);
            self.outbox_plain |= file.outbox_plain;
        }
        if self.hosts.is_empty() {
            self.hosts = file.hosts.clone();
        }
        // A certificate and a key belong together, so they come from one place.
        if self.tls_cert.is_none() {
            let beside = |path: &PathBuf| settings.beside_file(path);
            self.tls_cert = file.tls_cert.as_ref().map(beside);
            self.tls_key = file.tls_key.as_ref().map(beside);
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(Problem::usage(
                "server.tls_cert and server.tls_key: allowed are both, or neither of them",
            ));
        }
        self.plain_http |= file.plain_http;
        Ok(self)
    }
}

/// Serves a store until told to stop.
pub async fn serve(args: &ServeArgs, client: Client, session: &Session) -> Result<Exit, Problem> {
    let server = bind(args, client, session).await?;
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/", server.address());
    if session.json() {
        session.screen.print_json(&serde_json::json!({ "url": url }))?;
    } else {
        let mut page = session.screen.plain_page();
        page.say(format!(
            "Listening on {url} (the dashboard is there, too). Ctrl-C stops in order."
        ));
        session.screen.print(&page)?;
    }
    server.run_until(stop_in_order(session)).await;
    Ok(Exit::Done)
}

/// A server beside whatever else this process does.
pub struct Beside {
    /// Where its dashboard is.
    pub url: String,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Beside {
    /// Begins to serve a store, on this machine, at the usual address or any that is free.
    pub async fn start(client: Client, session: &Session) -> Result<Self, Problem> {
        let at = |listen: &str| ServeArgs {
            listen: Some(listen.to_owned()),
            ..ServeArgs::default()
        };
        let server = match bind(&at(LISTEN), client.clone(), session).await {
            Ok(server) => server,
            Err(_) => bind(&at("127.0.0.1:0"), client, session).await?,
        };
        let url = format!("http://{}/", server.address());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run_until(async {
            let _ = stopped.await;
        }));
        Ok(Beside { url, stop, running })
    }

    /// Goes on until told to stop.
    pub async fn until_told_to_stop(self, session: &Session) {
        stop_in_order(session).await;
        let _ = self.stop.send(());
        let _ = self.running.await;
    }
}

async fn bind(args: &ServeArgs, client: Client, session: &Session) -> Result<Server, Problem> {
    let listen = address(args)?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(load_tls(certificate, key).map_err(Problem::usage)?),
        _ => None,
    };
    if !listen.ip().is_loopback() {
        if !tokens::list(&client).await?.iter().any(TokenRecord::is_good) {
            return Err(not_permitted(
                format!("{listen} can be reached from other machines, and there is no token"),
                "semel tokens create NAME --role admin",
            ));
        }
        if tls.is_none() && !args.plain_http {
            return Err(not_permitted(
                format!("{listen} can be reached from other machines, and tokens would travel in plain text"),
                "--tls-cert FILE --tls-key FILE, or --plain-http behind a proxy that encrypts",
            ));
        }
    }
    let settings = Settings {
        hosts: args.hosts.clone(),
        redact: session.settings.file.redact.clone(),
        retention: session.settings.retention(),
        outbox: outbox(args).await?,
        thresholds: thresholds(&session.settings.file.alerts)?,
        shown: crate::commands::config::shown(&session.settings),
        ..Settings::on(listen)
    };
    Server::bind(client, settings, tls).await.map_err(|error| {
        Problem::new(
            Exit::Other,
            "other",
            format!("{listen} cannot be listened on: {error}"),
        )
        .hint("--listen 127.0.0.1:0 takes any free port")
    })
}

/// Opens the outbox that is to be relayed, making its tables where they are missing.
async fn outbox(args: &ServeArgs) -> Result<Option<Outbox>, Problem> {
    let Some(from) = &args.outbox else {
        return Ok(None);
    };
    let plain = if args.outbox_plain {
        Plain::Allow
    } else {
        Plain::Refuse
    };
    Ok(Some(Outbox::new(semel_outbox::open(from, plain).await?)))
}

fn address(args: &ServeArgs) -> Result<SocketAddr, Problem> {
    let said = args.listen.as_deref().unwrap_or(LISTEN);
    said.parse().map_err(|_| {
        Problem::usage(format!(
            "{said:?} is no address: allowed is IP:PORT, such as {LISTEN}"
        ))
    })
}

fn not_permitted(message: String, hint: &str) -> Problem {
    Problem::new(Exit::NotPermitted, "not_permitted", message).hint(hint)
}

/// Ends with the first signal that asks for it. The second does not wait for what is under way.
async fn stop_in_order(session: &Session) {
    told_to_stop().await;
    session
        .screen
        .note("Stopping: what is under way may finish. Ctrl-C again ends at once.");
    tokio::spawn(async {
        told_to_stop().await;
        std::process::exit(130);
    });
}

/// Ends with the next signal that asks for it.
async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
