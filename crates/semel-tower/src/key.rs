//! The header itself: a string of RFC 8941, in quotes; without them it is taken as well.

use http::{HeaderMap, HeaderName};

/// The name of the header.
pub const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, in bytes.
const LONGEST: usize = 255;

/// The key of a request, if it has one; else why what it has is none.
pub fn read(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let mut all = headers.get_all(HEADER).iter();
    let Some(first) = all.next() else {
        return Ok(None);
    };
    if all.next().is_some() {
        return Err("there are several Idempotency-Key headers; allowed is one");
    }
    let text = first
        .to_str()
        .map_err(|_| "the Idempotency-Key has characters other than visible ASCII")?
        .trim();
    let key = match text.strip_prefix('"') {
        Some(rest) => quoted(rest)?,
        None => bare(text)?,
    };
    match key.len() {
        0 => Err("the Idempotency-Key is empty; allowed are 1 to 255 characters"),
        length if length > LONGEST => Err("the Idempotency-Key is too long; allowed are 1 to 255 characters"),
        _ => Ok(Some(key)),
    }
}

fn quoted(rest: &str) -> Result<String, &'static str> {
    let mut key = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next() {
            None => return Err("the Idempotency-Key has no closing quote"),
            Some('"') => break,
            Some('\\') => match characters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => {
                    return Err(
                        "in a quoted Idempotency-Key a backslash stands before a quote or a backslash only",
                    );
                }
            },
            Some(plain) => key.push(plain),
        }
    }
    // Parameters of a structured field mean nothing here, and are allowed.
    match characters.as_str().trim_start() {
        "" => Ok(key),
        parameters if parameters.starts_with(';') => Ok(key),
        _ => Err("there is something behind the quoted Idempotency-Key; allowed is one string"),
    }
}

fn bare(text: &str) -> Result<String, &'static str> {
    match text.chars().any(|c| matches!(c, ' ' | '\t' | '"' | ',' | ';')) {
        true => Err("an Idempotency-Key without quotes has no spaces, quotes, commas or semicolons"),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(values: &[&[u8]]) -> Result<Option<String>, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        read(&headers)
    }

    #[test]
    fn quoted_and_bare_keys_are_the_same_key() {
        let long = "x".repeat(255);
        for (header, key) in [
            (
                r#""8e03978e-40d5-43dd-bc93-6894a57f9324""#,
                "8e03978e-40d5-43dd-bc93-6894a57f9324",
            ),
            (
                "8e03978e-40d5-43dd-bc93-6894a57f9324",
                "8e03978e-40d5-43dd-bc93-6894a57f9324",
            ),
            (r#""with \"quotes\" and \\""#, r#"with "quotes" and \"#),
            (r#""two words""#, "two words"),
            (r#""k";v=1"#, "k"),
            ("  k  ", "k"),
            (&long, &long),
        ] {
            assert_eq!(of(&[header.as_bytes()]), Ok(Some(key.to_owned())), "{header}");
        }
        assert_eq!(of(&[]), Ok(None));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = "x".repeat(256);
        for header in [
            r#""""#,
            "",
            "two words",
            "a,b",
            r#""open"#,
            r#""a"b"#,
            r#""\n""#,
            r#"a"b"#,
            &long,
        ] {
            assert!(of(&[header.as_bytes()]).is_err(), "{header}");
        }
        assert!(of(&["k\u{e9}".as_bytes()]).is_err());
        assert!(of(&[b"a", b"a"]).is_err());
    }
}
