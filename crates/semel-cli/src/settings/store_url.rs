//! The URL of a store: made absolute, and shown without its password.

use std::path::Path;

use semel::StoreUrl;

use crate::problem::Problem;

/// The same URL, a relative path in it taken from `beside`.
pub fn absolute(url: &str, beside: &Path) -> Result<String, Problem> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(
            Problem::usage(format!("store {url:?}: allowed is a URL such as sqlite:jobs.db"))
                .hint(format!("did you mean sqlite:{url}?")),
        );
    };
    if scheme != "sqlite" {
        return Ok(url.to_owned());
    }
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (rest, String::new()),
    };
    if path.is_empty() {
        return Err(
            Problem::usage(format!("store {url:?}: a file is missing after the colon"))
                .hint("for example sqlite:jobs.db"),
        );
    }
    let path = std::path::absolute(beside.join(path))
        .map_err(|error| Problem::usage(format!("store {url:?}: {path:?} is no path: {error}")))?;
    Ok(format!("{scheme}:{}{query}", path.display()))
}

/// The URL without its password (contract 8.2).
pub fn shown(url: &str) -> String {
    StoreUrl::parse(url).map_or_else(|_| "(not a store URL)".to_owned(), |url| url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_taken_from_where_it_was_said() {
        let made = |url| absolute(url, Path::new("/srv/app")).unwrap();
        assert_eq!(made("sqlite:jobs.db"), "sqlite:/srv/app/jobs.db");
        assert_eq!(
            made("sqlite:/var/jobs.db?namespace=a"),
            "sqlite:/var/jobs.db?namespace=a"
        );
        assert_eq!(made("memory:"), "memory:");
        assert!(absolute("jobs.db", Path::new("/")).is_err());
        assert!(absolute("sqlite:", Path::new("/")).is_err());
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(
            shown("redis://user:geheim@host:6379/0"),
            "redis://user:***@host:6379/0"
        );
    }
}
