"""The files that a call executes, over HTTP: one more exchange with a caller that can hash them, none with others."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.callers import Caller, Served
from tests.support.waiting import wait_until_async
from workers.transport.operand_files import hashed


@pytest.fixture
async def opened(gateway: Served, tmp_path: Path) -> Caller:
    """An agent with a session in a folder with a script."""
    (tmp_path / "deploy.sh").write_bytes(b"1")
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    body = {"rules": [{"permission": "bash", "pattern": "ls*", "action": "allow"}], "cwd": str(tmp_path)}
    assert (await agent.put("/v1/sessions/ses_1", body)).status_code == 201
    return agent


def call(command: str, **more: Any) -> dict[str, Any]:
    return {"request_id": "r1", "tool_name": "bash", "input": {"command": command}, **more}


async def asked(agent: Caller, command: str, **more: Any) -> tuple[int, dict[str, Any]]:
    answer = await agent.post("/v1/sessions/ses_1/asks", call(command, **more))
    return answer.status_code, answer.json()


async def test_a_caller_that_can_hash_is_told_which_files(opened: Caller, tmp_path: Path) -> None:
    status, problem = await asked(opened, "./deploy.sh && make", operands="ask")
    assert (status, problem["code"]) == (428, "OPERANDS_WANTED")
    assert problem["detail"] == "the call executes 2 files that must be hashed first: send them in `operands`"
    assert problem["wanted"] == [
        {"paths": [f"{tmp_path}/deploy.sh"]},
        {"paths": [f"{tmp_path}/{name}" for name in ("GNUmakefile", "makefile", "Makefile")], "is_optional": True},
    ]
    assert (await opened.get("/v1/sessions/ses_1/asks/r1")).status_code == 404


async def test_the_files_are_recorded_and_shown(opened: Caller, ann: Caller, tmp_path: Path) -> None:
    _, problem = await asked(opened, "./deploy.sh", operands="ask")
    status, _ = await asked(opened, "./deploy.sh", operands=hashed(problem["wanted"]))
    assert status == 202
    (row,) = (await ann.get("/v1/pending")).json()["pending"]
    digest = hashlib.sha256(b"1").hexdigest()
    assert row["operands"] == [{"path": f"{tmp_path}/deploy.sh", "sha256": digest, "size_bytes": 1}]
    (section,) = (one for one in row["description"]["sections"] if one["kind"] == "operand")
    assert section["origin"] == "request"
    assert section["text"].startswith("deploy.sh (SHA-256 ")


async def test_asking_again_attaches_without_another_list(opened: Caller) -> None:
    _, problem = await asked(opened, "./deploy.sh", operands="ask")
    await asked(opened, "./deploy.sh", operands=hashed(problem["wanted"]))
    assert (await asked(opened, "./deploy.sh", operands="ask"))[0] == 202


@pytest.mark.parametrize("command", ["git push", "ls -l", "rm -rf build"])
async def test_a_call_that_executes_no_file_takes_no_more_exchanges(opened: Caller, command: str) -> None:
    status, row = await asked(opened, command, operands="ask")
    assert status in (200, 202)
    assert "operands" not in row["request"]


async def test_a_caller_that_says_nothing_of_operands_is_not_asked_for_them(opened: Caller) -> None:
    status, row = await asked(opened, "./deploy.sh")
    assert status == 202
    assert "operands" not in row["request"]


async def test_a_write_has_none(opened: Caller) -> None:
    body = {"request_id": "r2", "tool_name": "write", "input": {"filePath": "deploy.sh"}, "operands": "ask"}
    assert (await opened.post("/v1/sessions/ses_1/asks", body)).status_code == 202


@pytest.mark.parametrize(
    ("operands", "says"),
    [
        ("yes", "invalid enum value 'yes'"),
        ([{"path": "x"}], "the path 'x' of an operand must be absolute"),
        ([{"path": "/x"}], "needs its SHA-256"),
        ([{"path": "/x", "hash": "y"}], "unknown field `hash`"),
        ([{"path": "/x", "found": "missing"}] * 40, "40 operands are too many"),
    ],
)
async def test_operands_that_are_none_are_refused(opened: Caller, operands: Any, says: str) -> None:
    status, problem = await asked(opened, "./deploy.sh", operands=operands)
    assert (status, problem["code"]) == (422, "INPUT")
    assert says in problem["detail"]


# --- at the claim


def swap(folder: Path) -> None:
    (folder / "deploy.sh").write_bytes(b"rm -rf /")


def lead_elsewhere(folder: Path) -> None:
    (folder / "link.sh").unlink()
    (folder / "link.sh").symlink_to("other.sh")


def change_makefile(folder: Path) -> None:
    (folder / "Makefile").write_bytes(b"all:\n\trm -rf /\n")


async def approved(opened: Caller, ann: Caller, folder: Path, command: str) -> None:
    (folder / "other.sh").write_bytes(b"1")
    (folder / "link.sh").symlink_to("deploy.sh")
    (folder / "Makefile").write_bytes(b"all:\n")
    _, problem = await asked(opened, command, operands="ask")
    assert (await asked(opened, command, operands=hashed(problem["wanted"])))[0] == 202
    assert (await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})).status_code == 200


async def claimed(agent: Caller) -> tuple[int, dict[str, Any]]:
    """Claim as a client does: hash the files that the gateway names, and claim with them."""
    path = "/v1/sessions/ses_1/asks/r1/claim"
    wanted = await agent.post(path, {"runner": "worker"})
    assert (wanted.status_code, wanted.json()["code"]) == (428, "OPERANDS_WANTED")
    answer = await agent.post(path, {"runner": "worker", "operands": hashed(wanted.json()["wanted"])})
    return answer.status_code, answer.json()


@pytest.mark.parametrize("command", ["./deploy.sh", "./link.sh", "make"])
async def test_unchanged_files_are_claimed(opened: Caller, ann: Caller, tmp_path: Path, command: str) -> None:
    await approved(opened, ann, tmp_path, command)
    status, claim = await claimed(opened)
    assert (status, claim["input"]) == (200, {"command": command})


@pytest.mark.parametrize(
    ("command", "change", "says"),
    [
        ("./deploy.sh", swap, "deploy.sh changed after it was approved"),
        ("./link.sh", swap, "link.sh changed after it was approved"),
        ("./link.sh", lead_elsewhere, "link.sh leads to {folder}/other.sh since it was approved"),
        ("make", change_makefile, "Makefile changed after it was approved"),
    ],
)
async def test_a_file_that_changed_after_the_approval_is_not_run(
    opened: Caller, ann: Caller, tmp_path: Path, *, command: str, change: Callable[[Path], None], says: str
) -> None:
    await approved(opened, ann, tmp_path, command)
    change(tmp_path)
    status, problem = await claimed(opened)
    assert (status, problem["code"], problem["cause"]) == (409, "REOPENED", "operand")
    assert problem["reason"] == says.format(folder=tmp_path)
    (row,) = (await ann.get("/v1/pending")).json()["pending"]
    assert row["round"] == 2
    again = await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once", "round": 2})
    assert again.status_code == 200
    assert (await claimed(opened))[0] == 200


async def test_a_claim_asked_for_with_the_ask_hashes_again_after_the_wait(
    opened: Caller, ann: Caller, tmp_path: Path
) -> None:
    _, problem = await asked(opened, "./deploy.sh", operands="ask")
    body = call("./deploy.sh", operands=hashed(problem["wanted"]), claim="worker")
    waiting = asyncio.create_task(opened.post("/v1/sessions/ses_1/asks?wait=20", body))

    async def pending() -> bool:
        return len((await ann.get("/v1/pending")).json()["pending"]) == 1

    await wait_until_async(pending, "the call to be asked")
    swap(tmp_path)
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    answer = await waiting
    assert (answer.status_code, answer.json()["code"]) == (428, "OPERANDS_WANTED")
    again = await asked(opened, "./deploy.sh", operands=hashed(answer.json()["wanted"]), claim="worker")
    assert (again[0], again[1]["outcome"]) == (202, None)
    (row,) = (await ann.get("/v1/pending")).json()["pending"]
    assert row["reopened"] == "deploy.sh changed after it was approved"
