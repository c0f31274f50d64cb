//! Hostile names, keys, errors and inputs on every page: no foreign node, no request elsewhere, nothing the content
//! policy had to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::net::TcpListener;

use crate::chromium::{Tab, browse};
use crate::stage::Stage;
use crate::world;

/// What of the page is not ours.
const FOREIGN: &str = r#"(() => {
  const ours = "html head meta title link script body a nav ul li p form button main header h1 h2 code span div table thead tbody tr th td time b small dl dt dd pre input select option textarea label progress svg rect ol details summary br".split(" ");
  const found = [];
  for (const node of document.querySelectorAll("*")) {
    if (!ours.includes(node.localName)) found.push(node.outerHTML);
    for (const attribute of node.attributes) {
      if (attribute.name.startsWith("on") || attribute.name === "style") found.push(node.outerHTML);
      if (["href", "src", "action"].includes(attribute.name) && !/^[\/#]/.test(attribute.value)) found.push(node.outerHTML);
    }
  }
  if (document.scripts.length !== 1 || document.querySelectorAll("link").length !== 1) found.push("another script or style");
  return found;
})()"#;

const REQUESTS: &str = "performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith(location.origin))";

/// A place elsewhere that must never be visited.
async fn elsewhere() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = visits.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, visits)
}

async fn is_ours(tab: &Tab, path: &str) {
    assert_eq!(tab.eval(FOREIGN).await, json!([]), "foreign nodes on {path}");
    assert_eq!(
        tab.eval(REQUESTS).await,
        json!([]),
        "requests elsewhere from {path}"
    );
    assert_eq!(tab.eval("window.stopped").await, json!([]), "stopped on {path}");
}

#[tokio::test]
async fn hostile_text_is_nothing_but_text_on_every_page() {
    let stage = Stage::new().await;
    let (port, visits) = elsewhere().await;
    let text = format!(
        "<img src=//127.0.0.1:{port}/ onerror=alert(1)>\"'</script><script src=//127.0.0.1:{port}></script><a style=x onclick=x>"
    );
    let paths = world::hostile(&stage, &text).await;
    browse(&stage, async |tab| {
        tab.look(390, 844, false).await;
        let mut shown = 0;
        for path in &paths {
            tab.go(path).await;
            // What a live page fetches and puts in place is held to the same.
            tab.eval("window.fresh = false, refresh().then(() => { window.fresh = true; })").await;
            tab.until("window.fresh").await;
            is_ours(tab, path).await;
            let wide = "document.documentElement.scrollWidth > innerWidth";
            assert_eq!(tab.eval(wide).await, false, "{path} is wider than a phone");
            let said = tab.eval("document.body.textContent.includes('onerror=alert(1)>')").await;
            shown += usize::from(said == json!(true));
        }
        assert!(shown >= 12, "the hostile text was shown on {shown} pages");
        // The checks themselves see what they are meant to see.
        tab.eval(&format!(
            "document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:{port}/probe onerror=alert(1)>')"
        ))
        .await;
        tab.until("window.stopped.length >= 2").await;
        assert_ne!(tab.eval(FOREIGN).await, json!([]));
    })
    .await;
    assert_eq!(
        visits.load(Ordering::SeqCst),
        0,
        "the policy holds where escaping would fail"
    );
}

#[tokio::test]
async fn hostile_text_that_is_typed_comes_back_as_text() {
    let stage = Stage::new().await;
    let text = "\"><img src=x onerror=alert(1)>";
    browse(&stage, async |tab| {
        for (page, field) in [
            ("/keys", "text"),
            ("/jobs", "task"),
            ("/jobs", "key"),
            ("/jobs", "error"),
        ] {
            tab.go(page).await;
            tab.type_into(&format!("input[name={field}]"), text).await;
            tab.click("form[role=search] button").await;
            tab.until("location.search !== ''").await;
            is_ours(tab, page).await;
            let kept = tab
                .eval(&format!("document.querySelector('input[name={field}]').value"))
                .await;
            assert_eq!(kept, text, "the filter stays on {page}");
        }
        tab.go("/explain").await;
        tab.type_into("input[name=task]", text).await;
        tab.type_into("textarea[name=input]", &json!(text).to_string())
            .await;
        tab.click("form[data-show] button[type=submit]").await;
        tab.until("document.getElementById('answer').textContent.includes('outcome')")
            .await;
        is_ours(tab, "/explain").await;
    })
    .await;
}
