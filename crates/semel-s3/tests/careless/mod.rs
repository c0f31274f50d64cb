//! A real, tiny S3 server over HTTP that can be told to ignore the conditions of writes, as some do, or to forbid
//! things.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What it does not do as it should.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Creates what is there already.
    pub ignores_if_none_match: bool,
    /// Changes what is another one.
    pub ignores_if_match: bool,
    /// Forbids all requests of this kind: `GET`, `PUT`, `DELETE`, or `LIST`.
    pub forbids: Option<&'static str>,
}

type Objects = Arc<Mutex<BTreeMap<String, (u64, Vec<u8>)>>>;

/// Starts one; it ends with the process. Says where it is.
pub fn start(ways: Ways) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let objects = Objects::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let objects = objects.clone();
            std::thread::spawn(move || answer(stream, ways, &objects));
        }
    });
    format!("http://{address}")
}

fn answer(stream: TcpStream, ways: Ways, objects: &Objects) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers
        .get("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (status, tag, content) = respond(&method, &target, &headers, body, ways, objects);
    let tag = tag.map(|tag| format!("ETag: \"{tag}\"\r\n")).unwrap_or_default();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nDate: Tue, 03 Nov 2026 10:00:00 GMT\r\nLast-Modified: Tue, 03 Nov 2026 10:00:00 GMT\r\n{tag}Content-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    )
    .ok()?;
    stream.write_all(&content).ok()
}

fn respond(
    method: &str,
    target: &str,
    headers: &BTreeMap<String, String>,
    body: Vec<u8>,
    ways: Ways,
    objects: &Objects,
) -> (&'static str, Option<u64>, Vec<u8>) {
    let kind = if target.contains("list-type=2") {
        "LIST"
    } else {
        method
    };
    if ways.forbids == Some(kind) {
        return (
            "403 Forbidden",
            None,
            b"<Error><Code>AccessDenied</Code></Error>".to_vec(),
        );
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = path
        .trim_start_matches('/')
        .split_once('/')
        .map_or("", |(_, key)| key)
        .to_owned();
    let mut objects = objects.lock().expect("nobody panics with it");
    let found = objects.get(&key).map(|(tag, _)| *tag);
    match method {
        "PUT" => {
            let taken =
                headers.contains_key("if-none-match") && found.is_some() && !ways.ignores_if_none_match;
            let wanted = headers.get("if-match");
            let other = wanted.is_some_and(|tag| {
                Some(tag.trim_matches('"')) != found.map(|tag| tag.to_string()).as_deref()
            });
            if taken || (other && !ways.ignores_if_match) {
                return ("412 Precondition Failed", None, Vec::new());
            }
            let tag = found.unwrap_or(0) + 1;
            objects.insert(key, (tag, body));
            ("200 OK", Some(tag), Vec::new())
        }
        "GET" if query.contains("list-type=2") => ("200 OK", None, listed(&objects, query)),
        "GET" => match objects.get(&key) {
            Some((tag, content)) => ("200 OK", Some(*tag), content.clone()),
            None => ("404 Not Found", None, Vec::new()),
        },
        "DELETE" => {
            objects.remove(&key);
            ("204 No Content", None, Vec::new())
        }
        _ => ("501 Not Implemented", None, Vec::new()),
    }
}

fn listed(objects: &BTreeMap<String, (u64, Vec<u8>)>, query: &str) -> Vec<u8> {
    let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix="));
    let prefix = prefix.unwrap_or("").replace("%2F", "/");
    let mut xml = String::from("<ListBucketResult><IsTruncated>false</IsTruncated>");
    for (key, (tag, content)) in objects.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        xml.push_str(&format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-03T10:00:00.000Z</LastModified><ETag>\"{tag}\"</ETag><Size>{}</Size></Contents>",
            content.len()
        ));
    }
    xml.push_str("</ListBucketResult>");
    xml.into_bytes()
}
