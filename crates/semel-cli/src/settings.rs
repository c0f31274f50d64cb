//! Flags, then environment, then `semel.toml`, then defaults: each value, and where it came from.

mod file;
mod store_url;

pub use file::{File, JobOptions};
pub use store_url::{absolute, shown};

use std::fmt;
use std::path::{Path, PathBuf};

use semel_core::store::Retention;

use crate::args::Global;
use crate::problem::Problem;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(&'static str),
    /// The configuration file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(name) | Source::Environment(name) => f.write_str(name),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub source: Source,
}

impl<T> Sourced<T> {
    fn new(value: T, source: Source) -> Self {
        Sourced { value, source }
    }
}

/// Everything that is set before a command begins.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL of the store; a path in it is absolute.
    pub store: Sourced<String>,
    /// The server that is asked instead of the store.
    pub server: Option<Sourced<String>>,
    /// Which profile of the file.
    pub profile: Option<Sourced<String>>,
    /// What is logged.
    pub log: Option<Sourced<String>>,
    /// The configuration file, if there is one.
    pub path: Option<Sourced<PathBuf>>,
    /// What it says.
    pub file: File,
}

impl Settings {
    /// Gathers everything; reads the configuration file, and nothing else.
    pub fn load(global: &Global) -> Result<Self, Problem> {
        let path = config_path(global)?;
        let file = match &path {
            Some(found) => File::read(&found.value)?,
            None => File::default(),
        };
        let profile = said(global.profile.clone(), "--profile", "SEMEL_PROFILE");
        let mut settings = Settings {
            store: Sourced::new(String::new(), Source::Default),
            server: None,
            log: said(None, "", "SEMEL_LOG"),
            profile,
            path,
            file,
        };
        settings.store = settings.find_store(global)?;
        settings.server = settings.find_server(global)?;
        Ok(settings)
    }

    fn find_store(&self, global: &Global) -> Result<Sourced<String>, Problem> {
        let here = Path::new(".");
        if let Some(found) = said(global.store.clone(), "--store", "SEMEL_STORE") {
            return Ok(Sourced::new(absolute(&found.value, here)?, found.source));
        }
        let in_profile = self
            .profile_settings()?
            .and_then(|profile| profile.store.as_ref());
        match (in_profile.or(self.file.store.as_ref()), &self.path) {
            (Some(url), Some(path)) => {
                let beside = path.value.parent().unwrap_or(here);
                Ok(Sourced::new(
                    absolute(url, beside)?,
                    Source::File(path.value.clone()),
                ))
            }
            _ => Ok(Sourced::new(absolute("sqlite:semel.db", here)?, Source::Default)),
        }
    }

    /// A server that is named; a store that is named by a flag is meant itself.
    fn find_server(&self, global: &Global) -> Result<Option<Sourced<String>>, Problem> {
        if global.server.is_some() && global.store.is_some() {
            return Err(Problem::usage(
                "--server and --store at once: allowed is one of them",
            ));
        }
        if let Some(found) = said(global.server.clone(), "--server", "SEMEL_SERVER") {
            return Ok(Some(found).filter(|_| global.store.is_none()));
        }
        if matches!(self.store.source, Source::Flag(_) | Source::Environment(_)) {
            return Ok(None);
        }
        let in_profile = self
            .profile_settings()?
            .and_then(|profile| profile.server.clone());
        Ok(in_profile.map(|url| Sourced::new(url, self.file_source())))
    }

    fn profile_settings(&self) -> Result<Option<&file::Profile>, Problem> {
        let Some(wanted) = &self.profile else {
            return Ok(None);
        };
        if let Some(found) = self.file.profiles.get(&wanted.value) {
            return Ok(Some(found));
        }
        let known: Vec<&str> = self.file.profiles.keys().map(String::as_str).collect();
        let hint = match (&self.path, known.is_empty()) {
            (None, _) => "there is no semel.toml here; name one with --config".to_owned(),
            (Some(path), true) => format!("{} has no [profiles]", path.value.display()),
            (Some(_), false) => format!("there are: {}", known.join(", ")),
        };
        Err(Problem::usage(format!("there is no profile {:?}", wanted.value)).hint(hint))
    }

    /// The store's URL as it may be shown to anybody.
    pub fn shown_store(&self) -> String {
        shown(&self.store.value)
    }

    /// How long things are kept.
    pub fn retention(&self) -> Retention {
        let said = &self.file.retention;
        let usual = Retention::default();
        Retention {
            complete: said.complete.map_or(usual.complete, Into::into),
            failed: said.failed.map_or(usual.failed, Into::into),
            ledger: said.ledger.map_or(usual.ledger, Into::into),
        }
    }

    /// Whether log lines show digests instead of the texts of keys: they are as private as payloads (contract 7.6).
    pub fn hides_keys(&self) -> bool {
        self.file.redact_keys.unwrap_or(!self.file.redact.is_empty())
    }

    /// A path of the file, taken from where the file is.
    pub fn beside_file(&self, path: &Path) -> PathBuf {
        let file = self.path.as_ref().and_then(|path| path.value.parent());
        file.unwrap_or(Path::new(".")).join(path)
    }

    /// Where the values of the file come from.
    pub fn file_source(&self) -> Source {
        match &self.path {
            Some(path) => Source::File(path.value.clone()),
            None => Source::Default,
        }
    }
}

fn said(flag: Option<String>, name: &'static str, variable: &'static str) -> Option<Sourced<String>> {
    if let Some(value) = flag {
        return Some(Sourced::new(value, Source::Flag(name)));
    }
    let value = std::env::var(variable).ok().filter(|value| !value.is_empty())?;
    Some(Sourced::new(value, Source::Environment(variable)))
}

/// A file that was named has to be there; `semel.toml` here is used if it is.
fn config_path(global: &Global) -> Result<Option<Sourced<PathBuf>>, Problem> {
    let named = said(
        global.config.as_ref().map(|path| path.display().to_string()),
        "--config",
        "SEMEL_CONFIG",
    );
    let Some(named) = named else {
        let usual = PathBuf::from("semel.toml");
        let found = usual.is_file().then(|| std::path::absolute(&usual)).transpose();
        let path = found.map_err(|error| Problem::usage(format!("semel.toml cannot be found: {error}")))?;
        return Ok(path.map(|path| Sourced::new(path, Source::Default)));
    };
    let path = std::path::absolute(&named.value)
        .map_err(|error| Problem::usage(format!("{:?} is no path: {error}", named.value)))?;
    Ok(Some(Sourced::new(path, named.source)))
}
