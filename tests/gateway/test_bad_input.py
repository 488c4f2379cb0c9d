"""Malformed, oversized, unknown or excessive input gets its documented error and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from workers.gateway.quotas import Limiter, RateLimitedError
from workers.gateway.settings import BODY_BYTES_MAX, GatewaySettings

ASKS = "/v1/sessions/ses_1/asks"


@pytest.fixture
async def root(gateway: Served) -> Caller:
    """Somebody who may do everything, in a session where one request waits."""
    root = await gateway.caller("admin", "root")
    await root.put("/v1/sessions/ses_1", {"project": "shop"})
    await root.ask("ses_1", request_id="r1")
    return root


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (("POST", ASKS, []), 422, "INPUT"),
        (("POST", ASKS, {}), 422, "INPUT"),
        (("POST", ASKS, {"permission": "bash", "paterns": ["x"]}), 422, "INPUT"),
        (("POST", ASKS, {"permission": "bash"}), 422, "INPUT"),
        (("POST", ASKS, {"permission": "bash", "patterns": "x"}), 422, "INPUT"),
        (("POST", ASKS, {"permission": "", "patterns": ["x"]}), 422, "INPUT"),
        (("POST", ASKS, {"permission": "bash", "patterns": ["x" * 100_000]}), 422, "INPUT"),
        (("POST", ASKS, {"permission": "bash", "patterns": ["x"], "cwd": "here"}), 422, "INPUT"),
        (("POST", ASKS, {"tool_name": "bash", "patterns": ["x"], "input": {}}), 422, "INPUT"),
        (("POST", ASKS, {"permission": "bash", "patterns": ["other"], "request_id": "r1"}), 409, "DIFFERENT_REQUEST"),
        (("POST", f"{ASKS}?wait=301", {"permission": "bash", "patterns": ["x"]}), 422, "INPUT"),
        (("POST", f"{ASKS}?wait=-1", {"permission": "bash", "patterns": ["x"]}), 422, "INPUT"),
        (("POST", f"{ASKS}/r1/reply", {"reply": "perhaps"}), 422, "INPUT"),
        (("POST", f"{ASKS}/r1/reply", {}), 422, "INPUT"),
        (("POST", f"{ASKS}/nope/reply", {"reply": "once"}), 404, "UNKNOWN_REQUEST"),
        (("POST", "/v1/sessions/nope/asks", {"permission": "bash", "patterns": ["x"]}), 404, "UNKNOWN_SESSION"),
        (("GET", f"{ASKS}/nope", None), 404, "UNKNOWN_REQUEST"),
        (("PUT", "/v1/sessions/ses_1", {"project": "bank"}), 422, "INPUT"),
        (("PUT", "/v1/sessions/ses_2", {"dialect": "esperanto"}), 422, "POLICY"),
        (("PUT", "/v1/sessions/ses_2", {"timeouts": {"attended": "soon"}}), 422, "INPUT"),
        (("PUT", "/v1/sessions/ses_2", {"rules": {"nothing": 1}}), 422, "INPUT"),
        (("PUT", "/v1/sessions/ses_2", {"parent": "nope"}), 404, "UNKNOWN_SESSION"),
        (("GET", "/v1/sessions/ses_1/state?at=99", None), 422, "INPUT"),
        (("GET", "/v1/sessions/ses_1/state?at=yesterday", None), 422, "INPUT"),
        (("GET", "/v1/sessions?cursor=abc", None), 422, "INPUT"),
        (("GET", "/v1/sessions?outcome=fine", None), 422, "INPUT"),
        (("POST", "/v1/grants", {"permission": "bash", "patterns": ["x"]}), 422, "INPUT"),
        (("POST", "/v1/grants", {"project": "shop", "permission": "bash", "patterns": []}), 422, "INPUT"),
        (("POST", "/v1/grants", {"project": "shop", "permission": "bash"}), 422, "INPUT"),
        (
            ("POST", "/v1/grants", {"project": "shop", "permission": "x", "pattern": "a", "patterns": ["b"]}),
            422,
            "INPUT",
        ),
        (("DELETE", "/v1/grants/nope", None), 404, "UNKNOWN_GRANT"),
        (("POST", "/v1/tokens", {"name": "x", "role": "king"}), 422, "INPUT"),
        (("DELETE", "/v1/tokens/nope", None), 404, "UNKNOWN_TOKEN"),
        (("GET", "/v1/nowhere", None), 404, "NOT_FOUND"),
        (("DELETE", "/v1/pending", None), 405, "METHOD_NOT_ALLOWED"),
    ],
)
async def test_a_bad_request_is_told_what_is_wrong_and_changes_nothing(
    root: Caller, sent: tuple[str, str, Any], status: int, code: str
) -> None:
    answer = await root.send(*sent)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] != ""
    assert (await root.get("/v1/sessions/ses_1")).json()["version"] == 2
    assert (await root.get("/v1/sessions/ses_2")).status_code == 404


async def test_what_is_wrong_with_a_body_is_said_in_words(root: Caller) -> None:
    sent = {"permission": "bash", "patterns": ["x"], "metadata": 5}
    assert (await root.post(ASKS, sent)).json()["detail"] == "metadata: expected `object | null`, got `int`"
    unknown = await root.post(ASKS, {"permission": "bash", "paterns": ["x"]})
    assert unknown.json()["detail"] == "the body: object contains unknown field `paterns`"
    nowhere = await root.get("/v1/nowhere")
    assert nowhere.json()["detail"] == "there is no such address here; `/openapi.json` lists them"


@pytest.mark.parametrize("body", [b"", b"{", b'{"permission": "b\xff"}', b"[" * 100_000, b"\x00"])
async def test_what_is_no_json_is_refused(root: Caller, body: bytes) -> None:
    answer = await root.http.post(ASKS, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) in [(400, "MALFORMED"), (422, "INPUT")]


async def test_a_body_that_is_too_large_is_not_read(root: Caller) -> None:
    answer = await root.http.post(ASKS, content=b" " * (BODY_BYTES_MAX + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "image/png"])
@pytest.mark.parametrize("path", ["/v1/policy/check", ASKS])
async def test_json_that_says_it_is_something_else_is_refused(root: Caller, path: str, kind: str) -> None:
    answer = await root.http.post(path, content=b"{}", headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert f"`{kind}`" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
async def test_json_that_says_so_is_read(root: Caller, kind: str) -> None:
    body = b'{"dialect": "opencode", "permission": "bash", "patterns": []}'
    answer = await root.http.post("/v1/policy/check", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_an_idempotency_key_out_of_bounds_is_refused(root: Caller, key: str) -> None:
    answer = await root.post(ASKS, {"permission": "bash", "patterns": ["x"]}, Idempotency_Key=key)
    assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")


async def test_too_many_requests_are_told_when_to_come_again(ledger: Ledger) -> None:
    settings = GatewaySettings(requests_per_second=0.5, requests_burst=2)
    async with in_process(ledger, settings) as gateway:
        caller = await gateway.caller("auditor")
        assert [(await caller.get("/v1/me")).status_code for _ in range(3)] == [200, 200, 429]
        refused = await caller.get("/v1/me")
        assert (refused.json()["code"], int(refused.headers["retry-after"]) >= 1) == ("RATE_LIMITED", True)
        other = await gateway.caller("auditor")
        assert (await other.get("/v1/me")).status_code == 200


def test_a_long_request_counts_as_many_and_none_as_more_than_all() -> None:
    limiter = Limiter(rate=1, burst=10, now=lambda: 0.0)
    limiter.take("a", 9)
    with pytest.raises(RateLimitedError) as refused:
        limiter.take("a", 5)
    assert refused.value.data["retry_after"] == 4
    limiter.take("a")
    limiter.take("b", 1000)
    with pytest.raises(RateLimitedError):
        limiter.take("b")


def test_a_bucket_fills_again_with_time() -> None:
    now = [0.0]
    limiter = Limiter(rate=2, burst=2, now=lambda: now[0])
    limiter.take("a")
    limiter.take("a")
    with pytest.raises(RateLimitedError):
        limiter.take("a")
    now[0] = 0.5
    limiter.take("a")
