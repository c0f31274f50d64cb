//! What an operator does.

use semel_server::role::Role;
use serde_json::json;

use crate::chromium::browse;
use crate::stage::Stage;

#[tokio::test]
async fn an_absorbed_duplicate_shows_up_by_itself() {
    let stage = Stage::new().await;
    let charge = json!({"task": "charge", "input": 1, "idempotency_key": "ORD-1", "producer": "billing-api"});
    stage.submit(charge.clone()).await;
    browse(&stage, async |tab| {
        tab.go("/duplicates").await;
        tab.shows("Nothing was absorbed yet.").await;
        tab.until("document.getElementById('live').textContent === 'live'")
            .await;
        tab.eval("window.untouched = true").await;
        // The first look at the store is what later ones are compared with.
        tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
        stage.post("/v1/jobs", charge.clone()).await.is(200);
        tab.shows("billing-api").await;
        assert_eq!(
            tab.eval("window.untouched").await,
            true,
            "the page was not loaded again"
        );
        assert_eq!(
            tab.eval("document.querySelectorAll('#duplicates tbody').length")
                .await,
            2
        );
    })
    .await;
}

#[tokio::test]
async fn a_key_is_found_and_tells_its_life() {
    let stage = Stage::new().await;
    for order in ["ORD-1", "ORD-2"] {
        stage
            .submit(
                json!({"task": "charge", "input": {"order": order, "amount": 1}, "idempotency_key": order}),
            )
            .await;
    }
    let other = json!({"task": "charge", "input": {"order": "ORD-2", "amount": 2}, "idempotency_key": "ORD-2", "producer": "webhook"});
    stage.post("/v1/jobs", other).await.is(422);
    browse(&stage, async |tab| {
        tab.go("/keys").await;
        tab.shows("ORD-1").await;
        tab.type_into("input[name=text]", "ORD-2").await;
        tab.click("form[role=search] button").await;
        tab.until("location.search.includes('text=ORD-2')").await;
        tab.until("document.querySelectorAll('#keys tbody tr').length === 1")
            .await;
        tab.follow("ORD-2").await;
        tab.until(
            "location.pathname.startsWith('/keys/') && document.querySelector('h1').textContent === 'ORD-2'",
        )
        .await;
        let life = tab.eval("document.querySelector('.life').innerText").await;
        let life = life.as_str().unwrap();
        assert!(
            life.contains("conflict") && life.contains("webhook") && life.contains("/amount"),
            "{life}"
        );
        assert!(life.contains("Taken"), "{life}");
        // Who blocked it is one click away.
        tab.click("#key dd a[href^='/jobs/']").await;
        tab.until("location.pathname.startsWith('/jobs/')").await;
        tab.shows("ORD-2").await;
    })
    .await;
}

#[tokio::test]
async fn a_queue_is_paused_and_resumed() {
    let stage = Stage::new().await;
    stage
        .submit(json!({"task": "mail", "input": 1, "queue": "letters"}))
        .await;
    browse(&stage, async |tab| {
        tab.go("/queues").await;
        tab.type_into(
            "input[aria-label='Reason to pause letters']",
            "the printer is on fire",
        )
        .await;
        tab.click("button[aria-label='Pause letters']").await;
        tab.shows("the printer is on fire").await;
        let queues = stage.get("/v1/queues").await.is(200);
        assert_eq!(
            queues.json["items"][0]["paused"]["reason"],
            "the printer is on fire"
        );
        tab.go("/").await;
        tab.shows("Queue letters is paused").await;
        tab.go("/queues").await;
        tab.click("button[aria-label='Resume letters']").await;
        tab.until("document.querySelector(\"button[aria-label='Pause letters']\")")
            .await;
        let queues = stage.get("/v1/queues").await.is(200);
        assert!(queues.json["items"][0]["paused"].is_null(), "{queues:?}");
        tab.go("/audit").await;
        tab.shows("the printer is on fire").await;
    })
    .await;
}

#[tokio::test]
async fn what_is_in_hand_stays_while_the_page_lives() {
    // Pages once replaced whole parts of themselves at every change: on a busy store nobody got to press a lever that had
    // to be unfolded first, and a table jumped back while one scrolled in it.
    let stage = Stage::new().await;
    for task in ["m", "z"] {
        stage
            .submit(json!({"task": task, "input": 1, "queue": format!("letters-{task}")}))
            .await;
    }
    browse(&stage, async |tab| {
        // Wide enough for a table, too narrow for the whole of it.
        tab.look(800, 844, false).await;
        tab.go("/queues").await;
        tab.until("document.getElementById('live').textContent === 'live'")
            .await;
        let lever = "[...document.querySelectorAll('#lanes form')].find((form) => form.dataset.call === 'PATCH /v1/queues/letters-z#closed')";
        tab.eval(&format!(
            "window.lever = {lever}, window.lever.closest('details').open = true, window.lever.querySelector('[name=reason]').value = 'half a rea', window.table = window.lever.closest('.scroll'), window.table.scrollLeft = 40, window.lever.querySelector('button').focus({{ preventScroll: true }})"
        ))
        .await;
        tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
        for task in ["a", "n"] {
            stage
                .submit(json!({"task": task, "input": 1, "queue": format!("letters-{task}")}))
                .await;
        }
        tab.shows("letters-a").await;
        tab.shows("letters-n").await;
        for held in [
            "window.lever.isConnected",
            "window.lever.closest('details').open",
            "window.lever.querySelector('[name=reason]').value === 'half a rea'",
            "window.table.isConnected && window.table.scrollLeft === 40",
            "document.activeElement === window.lever.querySelector('button')",
            "window.lever.closest('tr').textContent.includes('letters-z')",
        ] {
            assert_eq!(tab.eval(held).await, true, "{held}");
        }
        // The lever is still that of its queue.
        tab.eval("window.lever.requestSubmit()").await;
        tab.until("[...document.querySelectorAll('#lanes tr')].some((row) => row.textContent.includes('letters-z') && row.textContent.includes('closed'))")
            .await;
        let queues = stage.get("/v1/queues").await.is(200);
        let closed: Vec<&str> = queues.json["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|queue| queue["intake"] == "closed")
            .map(|queue| queue["name"].as_str().unwrap())
            .collect();
        assert_eq!(closed, ["letters-z"]);
        // What came is where it belongs.
        let rows = "[...document.querySelectorAll('#lanes table')[0].querySelectorAll('tbody tr td:first-child')].map((cell) => cell.innerText)";
        assert_eq!(
            tab.eval(rows).await,
            json!(["letters-a", "letters-m", "letters-n", "letters-z"])
        );
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_replayed_by_plan() {
    let stage = Stage::new().await;
    for n in 0..3 {
        stage.dead_letter("sync", json!({"input": n})).await;
    }
    browse(&stage, async |tab| {
        tab.go("/dead-letters").await;
        tab.click("#letters form[data-then] button").await;
        tab.until("location.pathname.startsWith('/operations/')").await;
        tab.shows("To replay 3 jobs").await;
        tab.shows("planned: nothing was done yet").await;
        let jobs = stage.get("/v1/jobs").await.is(200);
        assert_eq!(
            jobs.json["items"].as_array().unwrap().len(),
            3,
            "a plan does nothing"
        );
        tab.click("button.danger").await;
        tab.accept().await;
        tab.until("document.querySelector('#operation .state.complete')")
            .await;
        let jobs = stage.get("/v1/jobs?state=queued").await.is(200);
        assert_eq!(
            jobs.json["items"].as_array().unwrap().len(),
            3,
            "three fresh jobs wait"
        );
    })
    .await;
}

#[tokio::test]
async fn a_submission_is_explained_and_nothing_is_written() {
    let stage = Stage::new().await;
    let id = stage
        .submit(json!({"task": "charge", "input": {"amount": 1}, "idempotency_key": "ORD-1"}))
        .await;
    browse(&stage, async |tab| {
        tab.go("/explain").await;
        tab.type_into("input[name=task]", "charge").await;
        tab.type_into("input[name=idempotency_key]", "ORD-1").await;
        tab.type_into("textarea[name=input]", "{\"amount\": 1}").await;
        tab.click("form[data-call] button[type=submit]").await;
        tab.until("document.getElementById('answer').textContent.includes('duplicate')")
            .await;
        tab.shows("It would be absorbed, and answered with the job that holds the key")
            .await;
        let way = "document.querySelector('#answer-said a').getAttribute('href')";
        assert_eq!(tab.eval(way).await, format!("/jobs/{id}"));
        tab.type_into("textarea[name=input]", "{\"amount\":").await;
        tab.click("form[data-show] button[type=submit]").await;
        tab.until("document.querySelector('form[data-show] .note').textContent !== ''")
            .await;
    })
    .await;
    assert_eq!(stage.get("/v1/stats").await.json["duplicates"], 0);
}

#[tokio::test]
async fn one_signs_in_and_out() {
    let stage = Stage::new().await;
    let token = stage.token("olga", &[Role::Operate], &[]).await;
    browse(&stage, async |tab| {
        tab.go("/jobs").await;
        tab.until("location.pathname === '/login'").await;
        tab.type_into("input[name=token]", "semel_nonsense").await;
        tab.click("button[type=submit]").await;
        tab.until("document.querySelector('.note').textContent !== ''")
            .await;
        tab.type_into("input[name=token]", &token).await;
        tab.click("button[type=submit]").await;
        // One gets to where one wanted to.
        tab.until("location.pathname === '/jobs'").await;
        tab.shows("olga").await;
        tab.until("document.getElementById('live').textContent === 'live'")
            .await;
        assert_eq!(
            tab.eval("document.cookie").await,
            "",
            "no script can read the cookie"
        );
        tab.click("button.link").await;
        tab.until("location.pathname === '/login'").await;
        tab.go("/").await;
        assert_eq!(tab.path().await, "/login");
        // An address that was made up leads nowhere else.
        for made_up in [
            "//127.0.0.1:1/",
            "https://evil.example/",
            "javascript:alert(1)",
            "/\\\\evil.example",
            "http://[",
            "//' + location.host + '//evil.example",
        ] {
            tab.eval(&format!("location.hash = '#{made_up}'")).await;
            let ours = "new URL(wanted(), location.href).origin === location.origin";
            assert_eq!(tab.eval(ours).await, true, "{made_up}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_whose_token_is_gone_asks_to_sign_in_again() {
    let mut stage = Stage::new().await;
    let root = stage.token("root", &[Role::Admin], &[]).await;
    let token = stage.token("olga", &[Role::Operate], &[]).await;
    stage.token = Some(root);
    browse(&stage, async |tab| {
        tab.go("/queues").await;
        tab.type_into("input[name=token]", &token).await;
        tab.click("button[type=submit]").await;
        tab.until(
            "location.pathname === '/queues' && document.getElementById('live').textContent === 'live'",
        )
        .await;
        stage.call("DELETE", "/v1/tokens/olga", json!({})).await.is(204);
        tab.until("location.pathname === '/login' && location.hash === '#/queues'")
            .await;
    })
    .await;
}
