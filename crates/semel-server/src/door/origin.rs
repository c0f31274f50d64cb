//! Requests that a browser was tricked into: by another site's page, or by a name that was pointed here.

use axum::extract::Request;
use axum::http::{HeaderMap, header};

use crate::app::Settings;
use crate::problem::Problem;

/// The names this server answers to.
#[derive(Debug)]
pub struct Hosts<'a> {
    settings: &'a Settings,
}

impl<'a> Hosts<'a> {
    /// Those of a server.
    pub fn of(settings: &'a Settings) -> Self {
        Hosts { settings }
    }

    /// Whether a request comes from this machine itself: to a loopback address, by its own name, through no proxy.
    pub fn is_direct(&self, request: &Request) -> bool {
        const PASSED_ON: [&str; 5] = [
            "forwarded",
            "via",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-real-ip",
        ];
        let headers = request.headers();
        self.settings.listen.ip().is_loopback()
            && !PASSED_ON.iter().any(|name| headers.contains_key(*name))
            && host_of(request).is_some_and(|host| self.is_own(host))
    }

    /// Refuses a request for any other: a page of elsewhere whose name was pointed to this address (rebinding).
    pub fn check(&self, request: &Request) -> Result<(), Problem> {
        let host = host_of(request);
        match host.is_some_and(|host| self.knows(host)) {
            true => Ok(()),
            false => Err(Problem::new(
                "wrong_host",
                format!(
                    "the Host {:?} is not one this server answers to",
                    semel_core::limits::cut(host.unwrap_or_default(), 100)
                ),
            )
            .hint("semel serve --host NAME allows another")),
        }
    }

    fn knows(&self, host: &str) -> bool {
        let (name, _) = split(host);
        let named =
            |allowed: &String| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(name);
        self.settings.hosts.iter().any(named) || self.is_own(host)
    }

    /// Whether it is the address that is listened on, or the name every machine has for itself.
    fn is_own(&self, host: &str) -> bool {
        let listen = self.settings.listen;
        let (name, port) = split(host);
        let right_port = match port {
            Some(port) => port.parse() == Ok(listen.port()),
            // Without a port it is that of the scheme; a proxy in front may leave it out.
            None => true,
        };
        let bare = name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(name);
        let is_ours = match bare.parse::<std::net::IpAddr>() {
            Ok(address) => address == listen.ip() || (listen.ip().is_loopback() && address.is_loopback()),
            Err(_) => listen.ip().is_loopback() && name.eq_ignore_ascii_case("localhost"),
        };
        is_ours && right_port
    }
}

fn host_of(request: &Request) -> Option<&str> {
    let told = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    told.or_else(|| request.uri().authority().map(|authority| authority.as_str()))
}

/// The name and the port of a Host, also of one with an IPv6 address.
fn split(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.ends_with(':') && (!name.contains(':') || name.ends_with(']')) => {
            (name, Some(port))
        }
        _ => (host, None),
    }
}

/// Refuses a change that a browser sends for another site. Programs that are no browsers send neither header.
pub fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let fine = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = text("host").unwrap_or_default();
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            !host.is_empty() && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
        }
        (None, None) => !headers.contains_key("sec-fetch-site") && !headers.contains_key("origin"),
    };
    match fine {
        true => Ok(()),
        false => Err(Problem::new(
            "cross_origin",
            "a browser sent this change for a page of another origin",
        )),
    }
}

/// Refuses a look that another site's page makes a browser take: it could not read the answer, but it could measure it, and
/// take up the room for long polls. Following a link from elsewhere is fine.
pub fn check_embedding(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let elsewhere = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
    match elsewhere && text("sec-fetch-mode") != Some("navigate") {
        false => Ok(()),
        true => Err(Problem::new(
            "cross_origin",
            "a browser asked for this on behalf of a page of another origin",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(settings: &Settings, host: &str) -> bool {
        Hosts::of(settings).knows(host)
    }

    #[test]
    fn only_its_own_names_are_known() {
        let mut settings = Settings::on("127.0.0.1:7077".parse().expect("an address"));
        for good in [
            "127.0.0.1:7077",
            "localhost:7077",
            "LOCALHOST:7077",
            "[::1]:7077",
            "localhost",
        ] {
            assert!(knows(&settings, good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:7077",
            "127.0.0.1:80",
            "localhost.evil.example:7077",
            "",
            "10.0.0.1:7077",
            "[::1",
            "a:b:c",
        ] {
            assert!(!knows(&settings, bad), "{bad}");
        }
        settings.hosts = vec!["jobs.example".to_owned()];
        assert!(knows(&settings, "jobs.example") && knows(&settings, "Jobs.Example:443"));
        let other = Settings::on("10.0.0.5:7077".parse().expect("an address"));
        assert!(knows(&other, "10.0.0.5:7077") && !knows(&other, "localhost:7077"));
    }

    #[test]
    fn another_sites_changes_are_refused() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().expect("a header"));
            }
            check_origin(&headers).is_ok()
        };
        assert!(of(&[("host", "localhost:1")]), "no browser");
        assert!(of(&[("sec-fetch-site", "same-origin")]));
        assert!(!of(&[("sec-fetch-site", "cross-site")]));
        assert!(
            !of(&[("sec-fetch-site", "same-site")]),
            "another port is another origin"
        );
        assert!(of(&[("host", "localhost:1"), ("origin", "http://localhost:1")]));
        assert!(!of(&[("host", "localhost:1"), ("origin", "http://evil.example")]));
        assert!(!of(&[("host", "localhost:1"), ("origin", "null")]));
    }
}
