"""The bridge around recorded conversations of Codelia's real runtime: the host gets all but the questions, byte for byte."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.forks import Fork
from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT
from tests.support.waiting import wait_until_async
from tests.workers.bridges.recorded import PLAYER

FOLDER: Final = ROOT / "tests" / "data" / "agents" / "codelia"
ASK: Final = "ui.confirm.request"
SESSION: Final = "talk"


class Recorded:
    """A conversation: what the host says before and while it is asked, and what of the runtime's lines it gets."""

    def __init__(self, name: str) -> None:
        self.path: Path = FOLDER / f"{name}.jsonl"
        rows = [json.loads(line) for line in self.path.read_text().splitlines()]
        said = [(row["dir"] == "to_client", row["line"], json.loads(row["line"])) for row in rows]
        self.for_host = b"".join(
            line.encode() + b"\n" for is_hosts, line, message in said if not is_hosts and message.get("method") != ASK
        )
        self.by_host = [line for is_hosts, line, message in said if is_hosts and "method" in message]

    def play(self, gateway: RunningGateway) -> subprocess.Popen[bytes]:
        command = ["bridge", "codelia", "--session", SESSION, "--", *PLAYER]
        process: subprocess.Popen[bytes] = Fork(
            [*command, str(self.path)],
            cwd=ROOT,
            env=gateway.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.tell(process, self.by_host[:2])
        return process

    def tell(self, process: subprocess.Popen[bytes], lines: list[str]) -> None:
        assert process.stdin
        process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        process.stdin.flush()

    def ended(self, process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
        """Exit code, and what the host got; it stays until it has got all, since its end is a runtime's."""
        assert process.stdout
        seen = process.stdout.read(len(self.for_host))
        rest, complaint = process.communicate(timeout=60)
        assert b"awaited" not in complaint, complaint.decode()
        return process.returncode, seen + rest


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("allowed", [("once", None)]),
        ("rejected", [("reject", "use the other folder"), ("once", None)]),
        ("stopped", [("reject", None)]),
        ("two-calls", [("once", None), ("once", None)]),
        ("edit", [("once", None)]),
    ],
)
async def test_a_recorded_runtime_hears_what_people_answer_and_the_host_all_else(
    gateway: RunningGateway, name: str, answers: list[tuple[str, str | None]]
) -> None:
    recorded = Recorded(name)
    process = recorded.play(gateway)
    ann = gateway.person()
    for reply, message in answers:
        await ann.answer_next(SESSION, reply, **({} if message is None else {"message": message}))
    assert recorded.ended(process) == (0, recorded.for_host)
    kinds = [row["type"] for row in await ann.events(SESSION)]
    assert (kinds.count("asked"), kinds.count("replied")) == (len(answers), len(answers))
    assert kinds.count("tool_finished") == [reply for reply, _ in answers].count("once"), "what ran is recorded"
    await ann.close()


async def test_a_recorded_edit_is_shown_with_its_difference(gateway: RunningGateway) -> None:
    recorded = Recorded("edit")
    process = recorded.play(gateway)
    ann = gateway.person()
    shown = await ann.answer_next(SESSION, "once")
    assert recorded.ended(process) == (0, recorded.for_host)
    assert (shown["permission"], shown["input"]) == ("write", {"file_path": "new.txt", "content": "moon\n"})
    assert shown["metadata"]["diff"] == "--- new.txt\n+++ new.txt\n@@ -0,0 +1,2 @@\n+moon\n+"
    await ann.close()


async def test_a_recorded_cancel_withdraws_the_question_and_the_runtime_is_told_no(gateway: RunningGateway) -> None:
    recorded = Recorded("cancelled")
    process = recorded.play(gateway)
    ann = gateway.person()
    await ann.waiting(SESSION)
    recorded.tell(process, recorded.by_host[2:])

    async def causes() -> list[Any]:
        return [row["event"]["cause"] for row in await ann.events(SESSION) if row["type"] == "cancelled"]

    assert await wait_until_async(causes, "the request to be cancelled") == ["asker_gave_up"]
    assert recorded.ended(process) == (0, recorded.for_host)
    await ann.close()
