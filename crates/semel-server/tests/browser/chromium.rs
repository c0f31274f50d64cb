//! A Chromium of one's own, driven over WebDriver, with an empty profile that ends with the test.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::panic::AssertUnwindSafe;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::error::CmdError;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::stage::Stage;

/// One at a time: two cores are busy enough with one browser.
static TURN: Mutex<()> = Mutex::const_new(());

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs in every document before anything else: what the content policy stopped is remembered.
const WATCH: &str = "window.stopped = []; document.addEventListener('securitypolicyviolation', (event) => window.stopped.push(event.violatedDirective + ' ' + event.blockedURI));";

/// A page in the browser.
pub struct Tab {
    client: Client,
    base: String,
}

/// Opens a browser on a server, and closes it whatever comes of the test.
pub async fn browse(stage: &Stage, test: impl AsyncFnOnce(&Tab)) {
    let _turn = TURN.lock().await;
    let profile = tempfile::tempdir().unwrap();
    let driver = Driver::start();
    let client = driver.session(profile.path().to_str().unwrap()).await;
    let tab = Tab {
        client,
        base: stage.url.clone(),
    };
    let tested = AssertUnwindSafe(async {
        tab.tell("Page.addScriptToEvaluateOnNewDocument", json!({"source": WATCH}))
            .await;
        test(&tab).await;
    });
    let tested = tested.catch_unwind().await;
    let closed = tab.client.close().await;
    drop(driver);
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
    closed.unwrap();
}

impl Tab {
    /// Opens a page, and waits until it is there; a stream may stay open behind it.
    pub async fn go(&self, path: &str) {
        self.client
            .goto(&format!("{}{path}", self.base))
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Where the browser is, without the server's address.
    pub async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        url.as_str().trim_start_matches(&self.base).to_owned()
    }

    /// What an expression gives.
    pub async fn eval(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        self.client
            .execute(&script, Vec::new())
            .await
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits for an expression to become true.
    #[expect(clippy::disallowed_methods, reason = "a browser has no clock of ours")]
    pub async fn until(&self, expression: &str) {
        let begun = Instant::now();
        // A page that is just being left cannot be asked.
        while !matches!(
            self.client
                .execute(&format!("return !!({expression});"), Vec::new())
                .await,
            Ok(Value::Bool(true))
        ) {
            assert!(
                begun.elapsed() < PATIENCE,
                "{expression} did not come true on {}; it shows:\n{}",
                self.path().await,
                self.eval("document.body.innerText").await
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page shows a text.
    pub async fn shows(&self, text: &str) {
        let text = json!(text);
        self.until(&format!("document.body.innerText.includes({text})"))
            .await;
    }

    /// Clicks on what a selector finds.
    pub async fn click(&self, css: &str) {
        self.attempt(css, async || {
            self.client.find(Locator::Css(css)).await?.click().await
        })
        .await;
    }

    /// Clicks on a link by its text.
    pub async fn follow(&self, text: &str) {
        self.attempt(text, async || {
            self.client.find(Locator::LinkText(text)).await?.click().await
        })
        .await;
    }

    /// Types into what a selector finds, in place of what is there.
    pub async fn type_into(&self, css: &str, text: &str) {
        self.attempt(css, async || {
            let field = self.client.find(Locator::Css(css)).await?;
            field.clear().await?;
            field.send_keys(text).await
        })
        .await;
    }

    /// Says yes to a question.
    pub async fn accept(&self) {
        self.attempt("a question", async || self.client.accept_alert().await)
            .await;
    }

    /// A picture of the page as far as the window shows it.
    pub async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    /// A window of another size and colour.
    pub async fn look(&self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.tell("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.tell("Emulation.setEmulatedMedia", media).await;
    }

    async fn tell(&self, command: &'static str, params: Value) {
        self.client.issue_cmd(DevTools { command, params }).await.unwrap();
    }

    /// A live part may be exchanged between finding something and touching it: then it is found again.
    #[expect(clippy::disallowed_methods, reason = "a browser has no clock of ours")]
    async fn attempt(&self, what: &str, mut act: impl AsyncFnMut() -> Result<(), CmdError>) {
        let begun = Instant::now();
        while let Err(error) = act().await {
            assert!(begun.elapsed() < PATIENCE, "{what}: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What WebDriver has no word for.
#[derive(Debug)]
struct DevTools {
    command: &'static str,
    params: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!(
            "session/{}/goog/cdp/execute",
            session.unwrap_or_default()
        ))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        let body = json!({"cmd": self.command, "params": self.params});
        (http::Method::POST, Some(body.to_string()))
    }
}

/// The program that drives the browser.
struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    fn start() -> Self {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("chromedriver is installed by cargo xtask test");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                let line = line.unwrap();
                let port = line.strip_prefix("ChromeDriver was started successfully on port ")?;
                port.trim_end_matches('.').parse().ok()
            })
            .expect("chromedriver says where it listens");
        Driver { process, port }
    }

    async fn session(&self, profile: &str) -> Client {
        let profile = format!("--user-data-dir={profile}");
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
            &profile,
        ];
        let wanted = json!({"goog:chromeOptions": {"args": args}, "unhandledPromptBehavior": "ignore"});
        let Value::Object(wanted) = wanted else {
            unreachable!("it is an object")
        };
        ClientBuilder::new(hyper_util::client::legacy::connect::HttpConnector::new())
            .capabilities(wanted)
            .connect(&format!("http://127.0.0.1:{}", self.port))
            .await
            .expect("Chromium starts")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser is in the same group of processes: none of it outlives the test.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status();
        let _ = self.process.wait();
    }
}
