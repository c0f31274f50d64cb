//! A server on a free port of this machine, and a client that holds every answer against the document.

use std::sync::OnceLock;

use reqwest::{Method, RequestBuilder, StatusCode, header};
use semel::Client;
use semel_core::ids::Name;
use semel_server::role::Role;
use semel_server::tokens::{self, NewToken};
use semel_server::{Server, Settings};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::described;

/// A running server.
pub struct Stage {
    pub url: String,
    pub client: Client,
    pub http: reqwest::Client,
    pub token: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: header::HeaderMap,
    pub text: String,
    pub json: Value,
}

impl Stage {
    /// A server on an empty store in memory.
    pub async fn new() -> Self {
        Stage::set(|_| {}).await
    }

    /// The same with settings of one's own.
    pub async fn set(change: impl FnOnce(&mut Settings)) -> Self {
        Stage::on(semel::connect("memory:").await.unwrap(), change).await
    }

    /// The same on a store of one's own.
    pub async fn on(client: Client, change: impl FnOnce(&mut Settings)) -> Self {
        // Built together with the command line, the HTTP client can encrypt and asks with what.
        let _set_before = rustls::crypto::ring::default_provider().install_default();
        let mut settings = Settings::on("127.0.0.1:0".parse().unwrap());
        change(&mut settings);
        let server = Server::bind(client.clone(), settings, None).await.unwrap();
        let url = format!("http://{}", server.address());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run_until(async {
            let _ = stopped.await;
        }));
        Stage {
            url,
            client,
            http: reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                // The server closes a connection on which nothing was asked for 10 s.
                .pool_idle_timeout(std::time::Duration::from_secs(5))
                .build()
                .unwrap(),
            token: None,
            stop: Some(stop),
            running: Some(running),
        }
    }

    /// A token with roles.
    pub async fn token(&self, name: &str, roles: &[Role], queues: &[&str]) -> String {
        let new = NewToken {
            name: Name::new(name).unwrap(),
            roles: roles.to_vec(),
            queues: queues.iter().map(|queue| Name::new(queue).unwrap()).collect(),
            ttl: None,
        };
        let made = tokens::create(&self.client, new).await.unwrap();
        // A server reads the tokens again every second.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        made.1
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request; whatever comes back has to be in the document.
    pub async fn send(&self, method: &str, path: &str, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let answer = read(response).await;
        described::check(method, path, &answer);
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, self.request("GET", path)).await
    }

    pub async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.send(method, path, self.request(method, path).json(&body))
            .await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, body).await
    }

    /// Submits a job that has to be taken; gives its id.
    pub async fn submit(&self, body: Value) -> String {
        let answer = self.post("/v1/jobs", body).await;
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.json["job"]["id"].as_str().unwrap().to_owned()
    }

    /// Claims one job of a task: its id and fence.
    pub async fn claim(&self, task: &str) -> (String, i64) {
        let body = json!({"worker": "w1", "tasks": [task], "max": 1, "lease_ms": 30_000});
        let answer = self.post("/v1/claims", body).await.is(200);
        let claim = &answer.json["claims"][0];
        (
            claim["job"]["id"].as_str().unwrap().to_owned(),
            claim["fence"].as_i64().unwrap(),
        )
    }

    /// A job that failed for good.
    pub async fn dead_letter(&self, task: &str, body: Value) -> String {
        let mut body = body;
        body["task"] = task.into();
        self.submit(body).await;
        let (id, fence) = self.claim(task).await;
        let settle = json!({"settlements": [{"id": id, "fence": fence, "result": "fail", "error": "card 4711 expired"}]});
        let settled = self.post("/v1/claims/settle", settle).await.is(200);
        assert_eq!(settled.json["results"][0]["state"], "failed");
        id
    }

    /// Stops in order, and waits for it.
    pub async fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(running) = self.running.take() {
            tokio::time::timeout(std::time::Duration::from_secs(30), running)
                .await
                .unwrap()
                .unwrap();
        }
    }
}

/// Reads an answer.
pub async fn read(response: reqwest::Response) -> Answer {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let text = response.text().await.unwrap();
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Answer {
        status,
        headers,
        text,
        json,
    }
}

impl Answer {
    /// The same answer, which has to have this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// The same answer, which has to be this problem.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        let answer = self.is(status);
        assert_eq!(answer.json["code"], code, "{answer:#?}");
        assert_eq!(answer.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(answer.json["type"], format!("/problems/{code}"));
        assert!(answer.json["request_id"].is_string());
        assert!(StatusCode::from_u16(status).is_ok());
        answer
    }
}

/// The document as the server serves it.
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| semel_server::openapi::describe(&semel_server::table::api()))
}
