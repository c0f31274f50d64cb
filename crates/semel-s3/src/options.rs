//! Where a bucket is, from a URL.

use std::fmt;

use semel_core::error::Invalid;
use semel_core::ids::Name;

/// How to reach a store in a bucket.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Options {
    /// The bucket.
    pub bucket: String,
    /// Where in it everything is; may be empty.
    pub prefix: String,
    /// The endpoint, where it is not that of AWS: `https://…`, or `http://…` on a network that is trusted.
    pub endpoint: Option<String>,
    /// The region; otherwise as the environment says.
    pub region: Option<String>,
    /// Access key and secret; otherwise as the environment or the machine says.
    pub credentials: Option<(String, String)>,
    /// The outermost part of every name and digest.
    pub namespace: Name,
    /// Whether a store that is not there is made.
    pub create: bool,
    /// Whether the bucket is addressed as part of the host name.
    pub virtual_hosted: bool,
    /// Whether up to a thousand objects are deleted by one request; not every server can.
    pub bulk_delete: bool,
}

impl S3Options {
    /// From a URL such as `s3://bucket/prefix?region=eu-central-1&namespace=app`.
    ///
    /// `endpoint=`, `region=`, `namespace=`, `virtual_hosted=true`, `bulk_delete=false` may follow the `?`.
    /// Credentials come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, …) or the machine.
    ///
    /// ```
    /// use semel_s3::S3Options;
    ///
    /// let options = S3Options::from_url("s3://jobs/billing?endpoint=http%3A%2F%2F127.0.0.1%3A4566&region=us-east-1")?;
    /// assert_eq!((options.bucket.as_str(), options.prefix.as_str()), ("jobs", "billing"));
    /// assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:4566"));
    /// # Ok::<(), semel_core::error::Invalid>(())
    /// ```
    pub fn from_url(url: &str) -> Result<Self, Invalid> {
        let shape = "s3://BUCKET/PREFIX?region=REGION, with endpoint=URL for a server that is not AWS";
        let wrong = |what: &str| Invalid::new(what, shape);
        let rest = url
            .strip_prefix("s3://")
            .ok_or_else(|| wrong("scheme of a store URL"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(fits) {
            return Err(wrong("bucket").hint("user, password and port do not belong into this URL"));
        }
        let mut options = S3Options {
            bucket: bucket.to_owned(),
            prefix: decoded(prefix.trim_matches('/'))?,
            endpoint: None,
            region: None,
            credentials: None,
            namespace: Name::new("default")?,
            create: true,
            virtual_hosted: false,
            bulk_delete: true,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.set(name, decoded(value)?)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Invalid> {
        let flag = |value: &str| match value {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Invalid::new(format!("{name} in a store URL"), "true or false")),
        };
        match name {
            "endpoint" if value.starts_with("https://") || value.starts_with("http://") => {
                self.endpoint = Some(value.trim_end_matches('/').to_owned());
            }
            "endpoint" => return Err(Invalid::new("endpoint in a store URL", "https://… or http://…")),
            "region" => self.region = Some(value),
            "namespace" => self.namespace = Name::new(value)?,
            "virtual_hosted" => self.virtual_hosted = flag(&value)?,
            "bulk_delete" => self.bulk_delete = flag(&value)?,
            _ => {
                return Err(Invalid::new(
                    format!("{name} in a store URL"),
                    "endpoint, region, namespace, virtual_hosted, bulk_delete",
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets do not belong in logs.
        f.debug_struct("S3Options")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

fn decoded(text: &str) -> Result<String, Invalid> {
    let wrong = || Invalid::new("store URL", "% only before two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = tail;
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    match text.chars().any(char::is_control) {
        true => Err(Invalid::new("store URL", "no control characters")),
        false => Ok(text),
    }
}
