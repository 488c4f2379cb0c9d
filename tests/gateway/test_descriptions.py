"""Descriptions that are kept: the same for the same request, never another one's, and not without bound."""

from __future__ import annotations

import msgspec
import pytest

from ledger.core.events import Actor
from ledger.log.fold_cache import cache_bytes
from ledger.session.state import Request
from ledger.session.would_run.description import description_json
from workers.gateway.descriptions import Descriptions


def request(command: str = "git push", **more: object) -> Request:
    given = {"input": {"command": command}, **more}
    return Request(
        request_id="r1",
        version=3,
        asked_ms=1,
        asker=Actor("agent", "build"),
        permission="bash",
        digest="the same, whatever it is of",
        patterns=(command,),
        tool_name="bash",
        **given,  # type: ignore[arg-type]
    )


def test_a_request_that_waits_is_described_once() -> None:
    kept, one = Descriptions(), request()
    text = kept.of("ses_1", one)
    moved = msgspec.structs.replace(one, deadline_ms=7, tier="unattended")
    assert kept.of("ses_1", moved) is text
    assert msgspec.json.decode(bytes(text)) == msgspec.json.decode(msgspec.json.encode(description_json(one)))


def test_the_same_request_read_again_is_described_once() -> None:
    kept = Descriptions()
    text = kept.of("ses_1", request())
    assert kept.of("ses_1", request()) is text


def test_another_content_in_the_same_place_with_the_same_digest_is_described_anew() -> None:
    kept = Descriptions()
    text = bytes(kept.of("ses_1", request()))
    for other in (request("rm -rf /"), request(input={"command": "git push", "force": True})):
        assert bytes(kept.of("ses_1", other)) == msgspec.json.encode(description_json(other)) != text
    # Equal to Python, and not the same on a card.
    said = [bytes(kept.of("ses_1", request(input={"force": value}))) for value in (True, 1, 1.0)]
    assert len(set(said)) == 3


def test_what_is_kept_is_bounded_by_the_setting_for_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMISSION_LEDGER_FOLDS_MB", "8")
    kept = Descriptions()
    for number in range(40):
        kept.of(f"ses_{number}", request(f"echo {number} {'x' * 20_000}"))
        assert kept.size <= cache_bytes("descriptions") == 512 * 1024
    assert kept.size > 256 * 1024


def test_what_is_kept_is_bounded() -> None:
    kept = Descriptions(bytes_max=50_000)
    for number in range(100):
        kept.of(f"ses_{number}", request())
    assert 0 < kept.size <= 50_000
    kept.of("ses_long", request("x" * 100_000))
    assert kept.size == 0
