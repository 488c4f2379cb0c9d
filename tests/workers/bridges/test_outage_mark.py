"""Hooks without a gateway: one waits for the grace, the next ones are told at once until the gateway is back."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.processes import free_port
from workers.bridges.hooks import before_tool, claude, codex, exchange
from workers.bridges.hooks.exchange import MARK_SECONDS, OutageMark
from workers.transport.place import GatewayRefusalError, UnreachableError

GRACE: Final = 30.0
HOOKS: Final = {"claude": claude, "codex": codex, "gemini": before_tool, "qwen": before_tool}
EVENTS: Final = {
    "claude": {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": "/srv/a"}},
    "codex": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    "gemini": {"hook_event_name": "BeforeTool", "tool_name": "read_file", "tool_input": {"file_path": "/srv/a"}},
    "qwen": {"hook_event_name": "PreToolUse", "tool_name": "read_file", "tool_input": {"file_path": "/srv/a"}},
}


class Waits:
    """A clock that the pauses of hooks move, and an exchange whose result a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.result: Callable[[], dict[str, Any]] | None = None

    def pause(self, seconds: float) -> None:
        self.seconds += seconds

    def called(self, grace: float = GRACE) -> float:
        """Return the seconds that a call waited before it was told that there is no gateway."""
        began = self.seconds
        with pytest.raises(UnreachableError):
            exchange.HookProcess().call("GET", "/v1/sessions/s", None, grace)
        return self.seconds - began


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Waits:
    clock = Waits()
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PERMISSION_LEDGER_GATEWAY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(exchange, "monotonic", lambda: clock.seconds)
    monkeypatch.setattr(exchange, "_wait_for_reader", clock.pause)
    own = exchange._exchange
    monkeypatch.setattr(
        exchange, "_exchange", lambda *said, **more: clock.result() if clock.result else own(*said, **more)
    )
    return clock


def refused(status: int) -> Callable[[], dict[str, Any]]:
    def answer() -> dict[str, Any]:
        raise GatewayRefusalError(status, {})

    return answer


def test_one_hook_waits_and_the_next_ten_do_not(waits: Waits) -> None:
    assert GRACE - 1 < waits.called() <= GRACE
    assert [waits.called() for _ in range(10)] == [0] * 10


@pytest.mark.parametrize("agent", HOOKS)
def test_every_hook_denies_at_once_after_the_first(
    waits: Waits, agent: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    waited = []
    for number in range(4):
        event = {"session_id": "s", "cwd": "/srv", "tool_use_id": f"t{number}", **EVENTS[agent]}
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(event).encode())))
        began = waits.seconds
        assert HOOKS[agent].main(agent, []) == 0
        waited.append(waits.seconds - began)
        said = capfd.readouterr().out
        assert ('"deny"' in said, '"allow"' in said) == (True, False)
    assert [GRACE - 1 < waited[0] <= GRACE, *waited[1:]] == [True, 0, 0, 0]


@pytest.mark.parametrize("answer", [lambda: {"outcome": None}, refused(404), refused(429)])
def test_a_gateway_that_is_back_gives_the_next_outage_its_grace(
    waits: Waits, answer: Callable[[], dict[str, Any]]
) -> None:
    waits.called()
    back = iter([answer, dict])

    def come() -> dict[str, Any]:
        return next(back)()

    waits.result = come
    with suppress(GatewayRefusalError):
        exchange.HookProcess().call("GET", "/v1/sessions/s", None, GRACE)
    waits.result = None
    assert waits.called() > GRACE - 1


def test_a_store_that_stays_away_behind_its_gateway_is_waited_for_once(waits: Waits) -> None:
    waits.result = refused(503)
    assert (waits.called() > GRACE - 1, waits.called()) == (True, 0)


def test_hooks_that_wait_together_are_told_together(waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    def pause(seconds: float) -> None:
        waits.pause(seconds)
        if waits.seconds > half:
            OutageMark(GRACE).set()  # by a hook that began earlier

    half = waits.seconds + GRACE / 2
    monkeypatch.setattr(exchange, "_wait_for_reader", pause)
    assert waits.called() < GRACE / 2 + 1


def test_another_grace_and_another_gateway_have_marks_of_their_own(
    waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits.called()
    assert waits.called(60) > 59
    assert waits.called(0) == 0
    monkeypatch.setenv("PERMISSION_LEDGER_GATEWAY", f"http://127.0.0.1:{free_port()}")
    assert waits.called() > GRACE - 1


@pytest.mark.parametrize("age", [MARK_SECONDS + 5, -60])
def test_a_mark_of_long_ago_or_of_a_clock_that_was_set_back_does_not_count(waits: Waits, age: float) -> None:
    waits.called()
    [mark] = Path(os.environ["PERMISSION_LEDGER_HOME"]).iterdir()
    os.utime(mark, (0, time.time() - age))
    assert waits.called() > GRACE - 1
    assert waits.called() == 0
