"""`run` and its claim through a gateway, also where the answer to the claim is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support.command_line import PROGRAM, ROOT, CommandLine, Ran, ended
from tests.support.gateways import Person, Row, RunningGateway, gateway
from tests.support.waiting import wait_until

__all__ = ["gateway"]

ALLOW: Final = '[{"permission": "bash", "pattern": "*", "action": "allow"}]'


class Runs:
    """Starts `run` at a gateway, with the token of this user's agents."""

    def __init__(self, running: RunningGateway) -> None:
        self.gateway = running
        token = running.agent_place().token
        assert token
        self.environment = {
            **running.environment,
            "PERMISSION_LEDGER_GATEWAY": running.address,
            "PERMISSION_LEDGER_TOKEN": token,
        }

    def start(self, *words: str | Path, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, "run", *map(str, words)],
            cwd=ROOT,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *words: str | Path) -> Ran:
        return CommandLine("", self.environment)("run", *words)


class Ann:
    """A person at the gateway, for tests without a loop: `run` hears signals, so it has the main thread."""

    def __init__(self, person: Person, runner: asyncio.Runner) -> None:
        self._person = person
        self._runner = runner

    def answer_next(self, session: str, reply: str) -> Row:
        return self._runner.run(self._person.answer_next(session, reply))

    def events(self, session: str) -> list[Row]:
        return self._runner.run(self._person.events(session))


class Withholding:
    """A socket before the gateway's that passes everything on, but for the answers to claims."""

    def __init__(self, folder: Path, upstream: Path) -> None:
        self.path = folder / "w.sock"
        self.withheld = threading.Event()
        self._upstream = str(upstream)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX)
        far.connect(self._upstream)
        claims = threading.Event()
        threading.Thread(target=self._pass_answers_on, args=(near, far, claims), daemon=True).start()
        with suppress(OSError):
            # The head and the body of a request may come apart.
            while part := near.recv(1 << 20):
                if b"/claim HTTP/1.1" in part:
                    claims.set()
                far.sendall(part)
        with suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)

    def _pass_answers_on(self, near: socket.socket, far: socket.socket, claims: threading.Event) -> None:
        with near, far, suppress(OSError):
            while part := far.recv(1 << 20):
                if claims.is_set():
                    self.withheld.set()
                else:
                    near.sendall(part)
            near.shutdown(socket.SHUT_RDWR)


@contextmanager
def withholding(running: RunningGateway) -> Iterator[Withholding]:
    one = Withholding(running.home, running.home / "gateway.sock")
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def runs(gateway: RunningGateway) -> Runs:
    return Runs(gateway)


@pytest.fixture
def ann(gateway: RunningGateway) -> Iterator[Ann]:
    with asyncio.Runner() as runner:
        person = gateway.person()
        yield Ann(person, runner)
        runner.run(person.close())


@pytest.fixture
def allowing(tmp_path: Path) -> Path:
    file = tmp_path / "allow.json"
    file.write_text(ALLOW)
    return file


def types(ann: Ann) -> list[str]:
    kinds = ("claimed", "claim_released", "tool_finished")
    return [row["type"] for row in ann.events("ses_1") if row["type"] in kinds]


def test_a_person_answers_at_the_gateway_and_the_command_runs_once(runs: Runs, ann: Ann) -> None:
    asking = runs.start("ses_1", "--id", "r1", "--project", "shop", "--", "sh", "-c", "echo it ran; exit 4")
    shown = ann.answer_next("ses_1", "once")
    assert (shown["request_id"], shown["input"]) == ("r1", {"command": "sh -c 'echo it ran; exit 4'"})
    ran = ended(asking)
    assert (ran.code, ran.out) == (4, "it ran\n")
    assert types(ann) == ["claimed", "tool_finished"]
    again = runs("ses_1", "--id", "r1", "--", "sh", "-c", "echo it ran; exit 4")
    assert (again.code, again.out) == (13, "")


@pytest.mark.slow
def test_a_rejection_and_a_wrong_token_have_their_exit_codes(runs: Runs, ann: Ann) -> None:
    asking = runs.start("ses_1", "--id", "r1", "--", "echo", "it ran")
    ann.answer_next("ses_1", "reject")
    ran = ended(asking)
    assert (ran.code, ran.out) == (4, "")
    assert runs("ses_1", "--no-wait", "--", "echo", "it ran").code == 7
    away = runs.start("ses_1", "--", "echo", "it ran", PERMISSION_LEDGER_TOKEN="plt_tok_nobody")
    assert ended(away).code == 12


def test_who_dies_between_the_claim_and_its_answer_claims_again_and_runs(
    runs: Runs, ann: Ann, gateway: RunningGateway, allowing: Path
) -> None:
    words = ("ses_1", "--id", "r1", "--rules", allowing, "--", "echo", "it ran")
    with withholding(gateway) as between:
        dying = runs.start(*words, PERMISSION_LEDGER_GATEWAY=f"unix:{between.path}")
        wait_until(between.withheld.is_set, "the claim to be written")
        wait_until(lambda: types(ann), "the claim to be in the log")
        os.killpg(dying.pid, signal.SIGKILL)
        assert ended(dying).out == ""
    ran = runs(*words)
    assert (ran.code, ran.out) == (0, "it ran\n")
    assert types(ann) == ["claimed", "claim_released", "claimed", "tool_finished"]
    assert runs(*words).code == 13


def test_a_command_with_a_secret_that_a_rule_allows_runs_with_it_through_a_gateway(
    runs: Runs, ann: Ann, tmp_path: Path
) -> None:
    secret = "ghp" + "_Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp9Oo8N"
    rules = tmp_path / "rules.json"
    rules.write_text(ALLOW)
    ran = runs("ses_1", "--rules", rules, "--", "echo", "--token", secret)
    assert (ran.code, ran.out) == (0, f"--token {secret}\n")
    rows = ann.events("ses_1")
    assert [row["type"] for row in rows][-2:] == ["claimed", "tool_finished"]
    assert secret not in str(rows)


def test_limits_that_a_run_states_are_those_of_its_session_an_open_one_too(runs: Runs, ann: Ann) -> None:
    assert runs("ses_1", "--no-wait", "--when-frozen", "deny", "--", "echo", "one").code == 7
    assert runs("ses_1", "--no-wait", "--approval-lifetime", "10m", "--", "echo", "two").code == 7
    assert runs("ses_1", "--no-wait", "--", "echo", "three").code == 7
    stated = [row["event"]["settings"] for row in ann.events("ses_1") if "settings" in row["event"]]
    assert [(one.get("when_frozen"), one.get("approval_lifetime_ms")) for one in stated] == [
        ("deny", None),
        ("deny", 600_000),
    ]
