//! The parts of a store URL. Shown without its password, always (contract 8.2).

use std::fmt;

use semel_core::error::Invalid;
use semel_core::ids::Name;

/// A store URL, taken apart: `scheme:place?option=value&…`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    scheme: String,
    place: String,
    options: Vec<(String, String)>,
    asked: Vec<&'static str>,
    /// As it was written, with its password: for the store alone.
    #[cfg(any(feature = "redis", feature = "s3"))]
    whole: String,
}

impl StoreUrl {
    /// Takes a URL apart. Names and values of options are percent-decoded, the place is left as it is.
    pub fn parse(url: &str) -> Result<Self, Invalid> {
        let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return Err(without_scheme(url));
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(name)?, decode(value)?))
            })
            .collect::<Result<_, Invalid>>()?;
        let scheme = scheme.to_ascii_lowercase();
        // Only a server has an authority: `sqlite:///var/jobs.db` is the file `/var/jobs.db`.
        let local = matches!(scheme.as_str(), "sqlite" | "memory");
        let place = place
            .strip_prefix("//")
            .filter(|_| local)
            .unwrap_or(place)
            .to_owned();
        Ok(StoreUrl {
            scheme,
            place,
            options,
            asked: Vec::new(),
            #[cfg(any(feature = "redis", feature = "s3"))]
            whole: url.to_owned(),
        })
    }

    /// What stands before the first colon.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What stands between scheme and options: a file, or `//user:password@host/…`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The URL as it was written, for a store that reads it itself. Never shown.
    #[cfg(any(feature = "redis", feature = "s3"))]
    pub(super) fn whole(&self) -> &str {
        &self.whole
    }

    /// Names another place.
    pub(super) fn move_to(&mut self, place: String) {
        self.place = place;
    }

    /// The value of an option; said twice, it contradicts itself.
    pub fn option(&mut self, name: &'static str) -> Result<Option<String>, Invalid> {
        self.asked.push(name);
        let mut values = self
            .options
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value);
        let value = values.next();
        if values.next().is_some() {
            return Err(Invalid::new(
                format!("option {name} of a store URL, twice"),
                "once",
            ));
        }
        Ok(value.cloned())
    }

    /// The namespace, `default` where none is named.
    pub fn namespace(&mut self) -> Result<Name, Invalid> {
        let name = self.option("namespace")?;
        Name::new(name.as_deref().unwrap_or("default"))
    }

    /// Refuses every option that was not asked for.
    pub fn refuse_others(&self, allowed: &[&str]) -> Result<(), Invalid> {
        match self
            .options
            .iter()
            .find(|(name, _)| !self.asked.contains(&name.as_str()))
        {
            None => Ok(()),
            Some((name, _)) => {
                let what = format!("option of a {}: URL", self.scheme);
                Err(Invalid::new(what, allowed.join(", ")).found(name))
            }
        }
    }
}

/// The URL for people: without a password, without the values of options that may be secret.
impl fmt::Display for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.scheme, without_password(&self.place))?;
        for (at, (name, value)) in self.options.iter().enumerate() {
            let sign = if at == 0 { '?' } else { '&' };
            let value = if is_secret(name) { "***" } else { value };
            write!(formatter, "{sign}{name}={value}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

fn is_scheme(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one))
}

fn without_scheme(url: &str) -> Invalid {
    let refused = Invalid::new("store URL without a scheme", super::KNOWN);
    match url.contains(['@', '?', ':']) || url.is_empty() {
        true => refused,
        false => refused.hint(format!("did you mean sqlite:{url}?")),
    }
}

fn without_password(place: &str) -> String {
    let user_and_host = place.strip_prefix("//").and_then(|rest| rest.rsplit_once('@'));
    match user_and_host {
        None => place.to_owned(),
        // The last `@` ends the user's part: a password may hold `@`, `:` and `/` itself.
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("//{user}:***@{host}"),
            None => format!("//{user}@{host}"),
        },
    }
}

fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    ["password", "secret", "token", "key"]
        .iter()
        .any(|word| option.contains(word))
}

fn decode(text: &str) -> Result<String, Invalid> {
    let wrong = || {
        Invalid::new(
            "percent sign in a store URL",
            "two hexadecimal digits after it, such as %20",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| Invalid::new("option of a store URL", "UTF-8 once it is decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://me:secret@host:6379/0", "redis://me:***@host:6379/0"),
            (
                "redis://:s@cr/et@host/0?namespace=a%20b",
                "redis://:***@host/0?namespace=a b",
            ),
            (
                "postgres://me@host/db?password=secret",
                "postgres://me@host/db?password=***",
            ),
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("sqlite:///var/jobs.db", "sqlite:/var/jobs.db"),
        ] {
            let url = StoreUrl::parse(url).expect("a URL");
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
        }
    }

    #[test]
    fn options_are_decoded_and_unknown_or_repeated_ones_refused() {
        let mut url = StoreUrl::parse("sqlite:jobs.db?namespace=a%26b%3D%C3%A9").expect("a URL");
        assert_eq!(url.namespace().expect("a name").as_str(), "a&b=é");
        assert!(url.refuse_others(&["namespace"]).is_ok());

        let url = StoreUrl::parse("sqlite:jobs.db?shards=4").expect("a URL");
        let refused = url
            .refuse_others(&["namespace", "synchronous"])
            .expect_err("unknown");
        assert_eq!(
            refused.to_string(),
            "option of a sqlite: URL (shards): allowed is namespace, synchronous"
        );

        let mut twice = StoreUrl::parse("sqlite:jobs.db?namespace=a&namespace=b").expect("a URL");
        assert!(twice.namespace().is_err());
        assert!(StoreUrl::parse("sqlite:jobs.db?namespace=%zz").is_err());
        assert!(StoreUrl::parse("sqlite:jobs.db?namespace=%ff").is_err());
    }

    #[test]
    fn a_file_without_a_scheme_gets_a_hint() {
        let refused = StoreUrl::parse("jobs.db").expect_err("no scheme");
        assert!(refused.to_string().contains("did you mean sqlite:jobs.db?"));
    }
}
