//! The pages, as a browser gets them.

use reqwest::header;
use semel_server::role::Role;
use serde_json::json;

use crate::stage::{Answer, Stage, read};
use crate::world;

const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>";

async fn page(stage: &Stage, path: &str) -> Answer {
    read(
        stage
            .request("GET", path)
            .header(header::ACCEPT, "text/html")
            .send()
            .await
            .unwrap(),
    )
    .await
}

#[tokio::test]
async fn hostile_names_keys_errors_and_inputs_are_text_on_every_page() {
    let stage = Stage::new().await;
    let paths = world::hostile(&stage, HOSTILE).await;
    let mut shown = 0;
    for path in &paths {
        let answer = page(&stage, path).await.is(200);
        assert!(
            answer.headers[header::CONTENT_TYPE]
                .to_str()
                .unwrap()
                .starts_with("text/html")
        );
        assert!(
            !answer.text.contains("<img") && !answer.text.contains("<script>"),
            "{path}"
        );
        assert_eq!(
            answer.text.matches("<script").count(),
            1,
            "{path}: only our own script"
        );
        assert!(
            !answer.text.contains(" style=") && !answer.text.contains(" onclick="),
            "{path}"
        );
        assert!(
            !answer.text.contains("http://") && !answer.text.contains("https://"),
            "{path} names another place"
        );
        shown += usize::from(answer.text.contains("&lt;img"));
    }
    assert!(shown >= 10, "the hostile text was shown on {shown} pages");
    let search = "/keys?text=%22%3E%3Cimg%20src%3Dx%3E";
    assert!(!page(&stage, search).await.is(200).text.contains("<img"));
    let missing = page(&stage, "/jobs/%3Cimg%20src%3Dx%3E").await.is(404);
    assert!(!missing.text.contains("<img"), "{}", missing.text);
}

#[tokio::test]
async fn who_is_not_known_is_sent_to_sign_in_and_a_reader_gets_no_levers() {
    let mut stage = Stage::new().await;
    let reader = stage.token("reader", &[Role::Read], &[]).await;
    let sent = page(&stage, "/").await.is(303);
    assert_eq!(sent.headers[header::LOCATION], "/login");
    let sent = page(&stage, "/jobs?state=failed").await.is(303);
    assert_eq!(sent.headers[header::LOCATION], "/login#/jobs?state=failed");
    page(&stage, "/login").await.is(200);
    page(&stage, "/assets/script.js").await.is(200);
    page(&stage, "/assets/style.css").await.is(200);
    stage.token = Some(reader);
    let queues = page(&stage, "/queues").await.is(200);
    assert!(!queues.text.contains("data-call=\"POST /v1"), "{}", queues.text);
}

#[tokio::test]
async fn every_code_has_its_page() {
    let stage = Stage::new().await;
    for code in semel_server::CODES {
        let answer = page(&stage, &format!("/problems/{}", code.word)).await.is(200);
        assert!(answer.text.contains(code.word));
    }
    page(&stage, "/problems/unheard-of").await.is(404);
}

#[tokio::test]
async fn filters_stay_in_the_address_of_the_next_page() {
    let stage = Stage::new().await;
    for n in 0..60 {
        stage.submit(json!({"task": "a b", "input": n})).await;
    }
    let answer = page(&stage, "/jobs?task=a%20b&state=queued").await.is(200);
    assert!(
        answer
            .text
            .contains("/jobs?state=queued&amp;task=a%20b&amp;cursor="),
        "{}",
        answer.text
    );
}
