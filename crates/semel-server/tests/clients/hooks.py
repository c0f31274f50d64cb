"""What schemathesis is told beyond the document: how long it may wait, and what a token is needed for."""

import schemathesis

# Open to everybody, as the guide lists them.
OPEN = {"/healthz", "/readyz", "/openapi.json", "/login", "/logout"}


@schemathesis.hook
def map_body(context, body):
    """A long poll that nobody answers would use the time up."""
    if isinstance(body, dict) and isinstance(body.get("wait_ms"), int):
        body["wait_ms"] = min(body["wait_ms"], 5)
    return body


@schemathesis.hook
def map_query(context, query):
    if isinstance(query, dict) and "timeout_ms" in query:
        query["timeout_ms"] = "5"
    return query


@schemathesis.check
def nobody_comes_in(context, response, case):
    """Where there are tokens, a request without one succeeds nowhere."""
    if case.path not in OPEN:
        assert response.status_code >= 400, f"{case.method} {case.path} gave {response.status_code} to nobody"


@schemathesis.check
def only_reads(context, response, case):
    """A token that may read changes nothing. Explaining writes nothing."""
    if case.path not in OPEN and case.path != "/v1/jobs/explain" and case.method.upper() != "GET":
        assert response.status_code >= 400, f"{case.method} {case.path} gave {response.status_code} to a reader"
