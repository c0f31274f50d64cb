//! `--server`: the same commands through a real `semel serve`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod stage;

use std::process::Child;

use serde_json::Value;
use stage::{Run, Stage};

/// A store with a server, and somebody elsewhere who only knows the server.
struct Far {
    near: Stage,
    far: Stage,
    server: Child,
    url: String,
}

impl Far {
    fn new() -> Self {
        let near = Stage::new();
        let (server, address) = near.serve(&[]);
        Far {
            near,
            far: Stage::new(),
            server,
            url: format!("http://{address}"),
        }
    }

    fn run(&self, args: &[&str]) -> Run {
        self.far.run_with(&[("SEMEL_SERVER", &self.url)], args)
    }

    /// The JSON of a command that has to end with this code.
    fn json(&self, code: i32, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        let run = self.run(&all);
        assert_eq!(run.code, code, "{run:#?}");
        run.json()
    }

    /// What a person sees.
    fn said(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{run:#?}");
        assert!(run.out.starts_with(&format!("server {}", self.url)), "{run:#?}");
        run.out
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_submission_is_answered_as_by_the_store_itself() {
    let far = Far::new();
    let first = far.json(
        0,
        &["submit", "charge", r#"{"n":9007199254740993}"#, "--key", "ORD-1"],
    );
    assert_eq!(first["outcome"], "accepted");
    let again = far.json(
        0,
        &["submit", "charge", r#"{"n":9007199254740993}"#, "--key", "ORD-1"],
    );
    assert_eq!(
        (&again["outcome"], &again["job"]["id"]),
        (&"duplicate".into(), &first["job"]["id"])
    );
    let conflict = far.run(&["submit", "charge", r#"{"n":9007199254740992}"#, "--key", "ORD-1"]);
    assert_eq!(conflict.code, 4, "every digit counts: {conflict:#?}");
    assert!(conflict.err.contains("/n"), "{conflict:#?}");
    let rejected = far.run(&[
        "submit",
        "charge",
        r#"{"n":9007199254740993}"#,
        "--exclusive",
        "ORD-9",
        "-q",
    ]);
    assert_eq!(rejected.code, 0, "{rejected:#?}");
    assert_eq!(
        far.run(&[
            "submit",
            "charge",
            r#"{"n":9007199254740993}"#,
            "--exclusive",
            "ORD-9"
        ])
        .code,
        3
    );
    let explained = far.json(
        0,
        &["explain", "charge", r#"{"n":9007199254740993}"#, "--key", "ORD-1"],
    );
    assert_eq!(explained["outcome"], "duplicate");
    let seen = far.near.json(&["jobs", "list", "--task", "charge"]);
    assert_eq!(seen["items"].as_array().unwrap().len(), 2, "{seen}");
    assert_eq!(far.run(&["submit", "charge", "{"]).code, 2);
    assert!(far.said(&["jobs", "list"]).contains("charge"));
    assert!(
        !far.far.path().join("semel.db").exists(),
        "no store was made here"
    );
}

#[test]
fn jobs_and_keys_are_seen_and_acted_on() {
    let far = Far::new();
    let job = far.json(0, &["submit", "sync", "1", "--key", "K 1"]);
    let id = job["job"]["id"].as_str().unwrap();
    far.json(0, &["submit", "sync", "1", "--key", "K 1"]);
    // The same shape, whichever way one looks.
    for args in [
        &["jobs", "list"][..],
        &["keys", "list"],
        &["queues", "list"],
        &["tasks", "list"],
        &["workers", "list"],
    ] {
        assert_eq!(far.json(0, args), far.near.json(args), "{args:?}");
    }
    let shown = far.json(0, &["jobs", "show", id]);
    assert_eq!((&shown["id"], &shown["state"]), (&id.into(), &"queued".into()));
    assert!(far.said(&["jobs", "show", id]).contains("K 1"));
    let key = far.json(0, &["keys", "show", "K 1"]);
    assert_eq!(key["ledger"].as_array().unwrap().len(), 1, "{key}");
    assert!(far.said(&["keys", "show", "K 1"]).contains("duplicate"));
    assert_eq!(far.run(&["keys", "show", "unheard of"]).code, 5);
    assert_eq!(
        far.run(&["keys", "release", "K 1", "--reason", "why not"]).code,
        9,
        "nobody was asked"
    );
    let released = far.run(&["keys", "release", "K 1", "--holder", id, "--reason", "a test"]);
    assert_eq!(released.code, 0, "{released:#?}");
    assert_eq!(far.run(&["jobs", "wait", id, "--timeout", "50ms"]).code, 8);
    assert_eq!(
        far.json(0, &["jobs", "cancel", id])["items"][0]["state"],
        "cancelled"
    );
    assert_eq!(far.run(&["jobs", "cancel", id]).code, 1);
    assert_eq!(far.run(&["jobs", "wait", id]).code, 7);
    let plan = far.json(0, &["jobs", "retry", "--task", "sync"]);
    assert_eq!((&plan["status"], &plan["total"]), (&"planned".into(), &1.into()));
    let done = far.json(0, &["jobs", "retry", "--task", "sync", "--yes"]);
    assert_eq!((&done["status"], &done["done"]), (&"done".into(), &1.into()));
    assert_eq!(far.near.job(id)["state"], "queued");
    assert_eq!(far.run(&["jobs", "retry"]).code, 2);
    assert!(far.said(&["dead-letters", "list"]).contains("no dead letters"));
}

#[test]
fn queues_schedules_and_events_are_steered() {
    let far = Far::new();
    far.json(0, &["submit", "mail", "1", "--queue", "letters"]);
    let paused = far.json(
        0,
        &["queues", "pause", "letters", "--for", "10m", "--reason", "fire"],
    );
    assert_eq!(paused["paused"]["reason"], "fire");
    assert!(
        far.said(&["queues", "resume", "letters"])
            .contains("no longer paused")
    );
    far.json(0, &["queues", "close", "letters"]);
    assert_eq!(far.run(&["submit", "mail", "2", "--queue", "letters"]).code, 6);
    far.json(0, &["queues", "open", "letters"]);
    far.json(0, &["queues", "unique", "letters"]);
    far.json(0, &["tasks", "pause", "mail"]);
    far.json(0, &["tasks", "resume", "mail"]);
    let set = far.json(
        0,
        &[
            "schedules",
            "set",
            "daily",
            "{}",
            "--cron",
            "@daily",
            "--task",
            "report",
        ],
    );
    assert_eq!(set["task"], "report");
    assert!(far.said(&["schedules", "list"]).contains("@daily"));
    far.json(0, &["schedules", "delete", "daily", "--yes"]);
    assert_eq!(far.run(&["events", "send", "paid", "1"]).code, 5);
    far.json(0, &["events", "subscribe", "paid", "receipt"]);
    let sent = far.json(0, &["events", "send", "paid", "1", "--key", "evt_1"]);
    assert_eq!(sent["results"][0]["task"], "receipt");
    assert!(far.said(&["events", "list"]).contains("receipt"));
    assert!(far.said(&["steps", "list"]).contains("No step is in doubt"));
    assert!(far.said(&["guarantees"]).contains("durability"));
    assert!(far.said(&["stats"]).contains("accepted"));
    let status = far.run(&["status"]);
    assert_eq!(status.code, 1, "nobody works: {status:#?}");
    assert!(status.out.contains("no_worker"), "{status:#?}");
    far.json(0, &["queues", "delete", "letters", "--yes"]);
    let reset = far.json(0, &["stats", "--reset", "--yes"]);
    assert_eq!(reset["accepted"], 0);
}

/// The cells of the row that begins with a name, by the heads of their columns.
fn cells(said: &str, name: &str) -> Vec<(String, String)> {
    let cut = |line: &str| -> Vec<String> {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.trim_start().starts_with(name));
    let at = at.unwrap_or_else(|| panic!("{name} in {said}"));
    let head = lines[..at]
        .iter()
        .rev()
        .find(|line| line.contains("NAME"))
        .unwrap();
    cut(head).into_iter().zip(cut(lines[at])).collect()
}

#[test]
fn tables_say_what_was_set() {
    let mut far = Far::new();
    far.far = Stage::new().wide();
    far.json(0, &["submit", "mail", "1", "--queue", "letters"]);
    let has = |args: &[&str], name: &str, head: &str, value: &str| {
        let row = cells(&far.said(args), name);
        let cell = row.iter().find(|(found, _)| found == head);
        assert!(
            cell.is_some_and(|(_, found)| found.contains(value)),
            "{head} {value}: {row:?}"
        );
    };
    has(&["queues", "list"], "letters", "INTAKE", "open");
    far.json(0, &["queues", "close", "letters"]);
    far.json(0, &["queues", "pause", "letters"]);
    has(&["queues", "list"], "letters", "INTAKE", "closed");
    let row = cells(&far.said(&["queues", "list"]), "letters");
    let paused = row.iter().find(|(head, _)| head == "PAUSED SINCE").unwrap();
    assert_ne!(paused.1, "-", "{row:?}");
    has(&["queues", "list"], "letters", "QUEUED", "1");
    let set = [
        "schedules",
        "set",
        "daily",
        "{}",
        "--cron",
        "@daily",
        "--task",
        "report",
    ];
    far.json(0, &set);
    has(&["schedules", "list"], "daily", "NEXT", "in ");
    has(&["schedules", "list"], "daily", "CRON", "@daily");
}

#[test]
fn the_outbox_of_a_server_is_shown_without_naming_its_database() {
    let near = Stage::new();
    let none = near.run(&["outbox", "status"]);
    assert_eq!(none.code, 2, "{none:#?}");
    assert!(none.err.contains("--from URL"), "{none:#?}");
    let shop = rusqlite::Connection::open(near.file("shop.db")).unwrap();
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        .unwrap();
    let (server, address) = near.serve(&["--outbox", "sqlite:shop.db"]);
    let far = Far {
        near,
        far: Stage::new(),
        server,
        url: format!("http://{address}"),
    };
    assert_eq!(far.json(0, &["outbox", "status"])["pending"], 0);
    assert!(far.said(&["outbox", "status"]).contains("No event was given up."));
}

#[test]
fn a_key_is_found_by_its_whole_text_among_many_that_contain_it() {
    let far = Far::new();
    far.json(0, &["submit", "t", "1", "--key", "ord-1"]);
    for n in 100..160 {
        far.near.submit(&["t", "1", "--key", &format!("ord-{n}")]);
    }
    assert_eq!(far.json(0, &["keys", "show", "ord-1"])["text"], "ord-1");
}

#[test]
fn a_server_that_asks_for_a_token_is_shown_it() {
    let far = Far::new();
    // It would be the first and could make no other: the server says so, who has the store may do it.
    let create = ["tokens", "create", "ada", "--role", "submit"];
    let first = far.run(&create);
    assert_eq!(first.code, 2, "{first:#?}");
    assert!(first.err.contains("admin"), "{first:#?}");
    let made = far.near.run(&create);
    assert_eq!(made.code, 0, "{made:#?}");
    let token = made.out.trim();
    far.near
        .until("the server has read it", || far.run(&["stats"]).code == 9);
    let none = far.run(&["submit", "t", "1"]);
    assert!(none.err.contains("SEMEL_TOKEN"), "{none:#?}");
    let env = [("SEMEL_SERVER", far.url.as_str()), ("SEMEL_TOKEN", token)];
    assert_eq!(far.far.run_with(&env, &["submit", "t", "1"]).code, 0);
    let forbidden = far.far.run_with(&env, &["jobs", "list"]);
    assert_eq!(forbidden.code, 9, "{forbidden:#?}");
    assert!(!forbidden.err.contains(token), "{forbidden:#?}");
}

#[test]
fn what_cannot_go_through_a_server_says_so() {
    let far = Far::new();
    let refused = far.run(&["doctor"]);
    assert_eq!(refused.code, 2, "{refused:#?}");
    assert!(refused.err.contains("--store"), "{refused:#?}");
    let flag = ["--server", far.url.as_str()];
    assert_eq!(far.far.run(&[&flag[..], &["demo"]].concat()).code, 2);
    assert_eq!(
        far.far
            .run(&[&flag[..], &["jobs", "list", "--store", "memory:"]].concat())
            .code,
        2
    );
    let nowhere = far.far.run(&["--server", "http://127.0.0.1:1", "jobs", "list"]);
    assert_eq!(nowhere.code, 6, "{nowhere:#?}");
    assert!(nowhere.err.contains("semel serve"), "{nowhere:#?}");
    for wrong in ["sqlite:semel.db", "http://user:secret@host", "nonsense"] {
        let refused = far.far.run(&["--server", wrong, "jobs", "list"]);
        assert_eq!(refused.code, 2, "{refused:#?}");
        assert!(!refused.err.contains("secret"), "{refused:#?}");
    }
}

#[test]
fn a_worker_elsewhere_works() {
    let far = Far::new();
    let submit = |task: &str, input: &str| {
        let job = far.json(
            0,
            &[
                "submit",
                task,
                input,
                "--key",
                &format!("{task}-{input}"),
                "--max-attempts",
                "1",
            ],
        );
        job["job"]["id"].as_str().unwrap().to_owned()
    };
    let ids: Vec<String> = (0..5).map(|n| submit("double", &n.to_string())).collect();
    let wrong = submit("wrong", "1");
    let script =
        r#"read n; echo "working on $SEMEL_KEY" >&2; [ "$SEMEL_TASK" = double ] || exit 65; echo $((n * 2))"#;
    let worked = far.run(&[
        "work",
        "--task",
        "double",
        "--task",
        "wrong",
        "--exec",
        script,
        "--drain",
        "--concurrency",
        "2",
    ]);
    assert_eq!(worked.code, 0, "{worked:#?}");
    assert!(worked.err.contains("6 attempts settled"), "{worked:#?}");
    for (n, id) in ids.iter().enumerate() {
        let waited = far.run(&["jobs", "wait", id]);
        assert_eq!(
            (waited.code, waited.out.trim()),
            (0, (n * 2).to_string().as_str()),
            "{waited:#?}"
        );
    }
    let shown = far.json(0, &["jobs", "show", &wrong]);
    assert_eq!(shown["state"], "failed", "{shown}");
    assert!(
        shown["logs"].to_string().contains("working on wrong-1"),
        "{shown}"
    );
    // One that is stopped hands back what it has.
    let slow = submit("slow", "1");
    let mut worker = far
        .far
        .command(&["work", "--task", "slow", "--exec", "sleep 60", "--grace", "100ms"])
        .env("SEMEL_SERVER", &far.url)
        .spawn()
        .unwrap();
    far.near
        .until("it runs", || far.near.job(&slow)["state"] == "running");
    let killed = std::process::Command::new("kill")
        .arg(worker.id().to_string())
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(worker.wait().unwrap().success());
    assert_eq!(far.near.job(&slow)["state"], "queued");
}

/// A certificate for this machine, and the authority that vouches for it.
fn certify(stage: &Stage) {
    let script = "
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout ca.key -out ca.pem \\
            -subj /CN=tests -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.csr -subj /CN=here
        printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=critical,CA:FALSE\\n' > extensions
        openssl x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 -extfile extensions -out cert.pem";
    let made = std::process::Command::new("sh")
        .args(["-ec", script])
        .current_dir(stage.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn an_encrypted_server_is_believed_by_those_who_trust_its_certificate() {
    let near = Stage::new();
    certify(&near);
    let (mut server, address) = near.serve(&["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let url = format!("https://{address}");
    let authority = near.file("ca.pem");
    let trusts = [
        ("SEMEL_SERVER", url.as_str()),
        ("SSL_CERT_FILE", authority.to_str().unwrap()),
    ];
    let sent = near.run_with(&trusts, &["submit", "t", "1", "--json"]);
    assert_eq!(sent.code, 0, "{sent:#?}");
    assert_eq!(sent.json()["outcome"], "accepted");
    let stranger = near.run_with(&[("SEMEL_SERVER", url.as_str())], &["jobs", "list"]);
    assert_eq!(stranger.code, 6, "{stranger:#?}");
    let plain = format!("http://{address}");
    assert_eq!(
        near.run_with(&[("SEMEL_SERVER", plain.as_str())], &["jobs", "list"])
            .code,
        6
    );
    server.kill().unwrap();
    server.wait().unwrap();
}
