"""A file that the call executes and that changed between approval and run: the call does not run, and is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from ledger import Ledger, ReopenedError, Session
from ledger.core.errors import OperandsWantedError
from ledger.core.events import Reopened
from ledger.core.operands import Operand
from ledger.policy import Verdict
from tests.support.waiting import wait_until_async

A: Final = Operand("/w/deploy.sh", "a" * 64)
B: Final = Operand("/w/deploy.sh", "b" * 64)


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


async def opened(ledger: Ledger, folder: Path) -> Session:
    (folder / "deploy.sh").write_bytes(b"echo 1\n")
    (folder / "other.sh").write_bytes(b"echo 2\n")
    (folder / "link.sh").symlink_to("deploy.sh")
    (folder / "Makefile").write_bytes(b"all:\n")
    (folder / "tools").mkdir()
    (folder / "tools" / "x.py").write_bytes(b"1\n")
    return await ledger.session("s", cwd=str(folder), home=str(folder))


async def approved(session: Session, command: str) -> None:
    """The call is asked on this machine, and a person allows it once."""
    await session._submit_here("bash", {"command": command}, "r1", {})
    await session.reply("r1", "once", actor="ann")


def write(name: str, content: bytes = b"rm -rf /\n") -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def lead(name: str, to: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(to)

    return change


def swap_folders(folder: Path) -> None:
    (folder / "tools").rename(folder / "old")
    (folder / "tools").mkdir()
    (folder / "tools" / "x.py").write_bytes(b"2\n")


@pytest.mark.parametrize(
    ("command", "change", "says"),
    [
        ("./deploy.sh", write("deploy.sh"), "deploy.sh changed after it was approved"),
        ("bash -e deploy.sh", write("deploy.sh"), "deploy.sh changed after it was approved"),
        ("sudo env A=1 timeout 5 './deploy.sh'", write("deploy.sh"), "deploy.sh changed after it was approved"),
        ("sh < deploy.sh", write("deploy.sh"), "deploy.sh changed after it was approved"),
        ("cat deploy.sh | sh", write("deploy.sh"), "deploy.sh changed after it was approved"),
        (
            ". ./deploy.sh",
            lambda folder: (folder / "deploy.sh").unlink(),
            "deploy.sh was removed after it was approved",
        ),
        ("./link.sh", write("deploy.sh"), "link.sh changed after it was approved"),
        ("./link.sh", lead("link.sh", "other.sh"), "link.sh changed after it was approved"),
        ("make", write("Makefile"), "Makefile changed after it was approved"),
        ("make -C .", write("GNUmakefile"), "GNUmakefile did not exist when it was approved"),
        (
            "make",
            lambda folder: (folder / "Makefile").unlink(),
            "Makefile was removed or replaced after it was approved",
        ),
        ("python tools/x.py", swap_folders, "tools/x.py changed after it was approved"),
        ("./gone.sh", write("gone.sh"), "gone.sh did not exist when it was approved"),
        ("python -m tool", write("tool.py"), "tool.py did not exist when it was approved"),
    ],
)
async def test_a_changed_file_reopens_the_request_with_its_reason(
    ledger: Ledger, tmp_path: Path, command: str, change: Callable[[Path], object], says: str
) -> None:
    session = await opened(ledger, tmp_path)
    await approved(session, command)
    change(tmp_path)
    with pytest.raises(ReopenedError) as refused:
        await session.claim("r1")
    assert refused.value.data["cause"] == "operand"
    assert refused.value.data["reason"] == says
    assert refused.value.text == f"request `r1` is pending again: {says}"
    (pending,) = await session.pending()
    assert pending.request.round == 2


async def test_a_link_to_a_file_with_the_same_content_is_another_file(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    await approved(session, "./link.sh")
    (tmp_path / "other.sh").write_bytes(b"echo 1\n")
    lead("link.sh", "other.sh")(tmp_path)
    with pytest.raises(ReopenedError, match=r"link\.sh leads to .*other\.sh since it was approved"):
        await session.claim("r1")


@pytest.mark.parametrize("command", ["./deploy.sh", "./link.sh", "make", "git push", "./gone.sh", "python -m tool"])
async def test_what_did_not_change_is_claimed(ledger: Ledger, tmp_path: Path, command: str) -> None:
    session = await opened(ledger, tmp_path)
    await approved(session, command)
    (tmp_path / "unrelated.sh").write_bytes(b"1")
    assert (await session.claim("r1")).input == {"command": command}


async def test_the_next_round_shows_the_file_of_now_and_its_approval_counts(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    await approved(session, "./deploy.sh")
    (before,) = (await session.state()).settled["r1"].request.operands or ()
    write("deploy.sh")(tmp_path)
    with pytest.raises(ReopenedError):
        await session.claim("r1")
    (pending,) = await session.pending()
    (now,) = pending.request.operands or ()
    assert now.sha256 != before.sha256
    await session.reply("r1", "once", actor="ann", round=2)
    assert (await session.claim("r1")).round == 2


async def test_a_permit_asks_again_until_what_was_approved_is_what_is_there(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    ran: list[bytes] = []

    async def run() -> None:
        async with session.permit_tool("bash", {"command": "./deploy.sh"}, request_id="r1"):
            ran.append((tmp_path / "deploy.sh").read_bytes())

    running = asyncio.create_task(run())

    async def in_round(number: int) -> bool:
        request = (await session.state()).pending.get("r1")
        return request is not None and request.round == number

    await wait_until_async(lambda: in_round(1), "the call to be asked")
    write("deploy.sh", b"swapped\n")(tmp_path)
    await session.reply("r1", "once", actor="ann")
    await wait_until_async(lambda: in_round(2), "the call to be asked again")
    assert ran == []
    await session.reply("r1", "once", actor="ann", round=2)
    await running
    assert ran == [b"swapped\n"]
    events = [one.event async for one in session.events(follow_on=False)]
    (event,) = (one for one in events if isinstance(one, Reopened))
    assert (event.cause, event.verdict) == ("operand", Verdict.ASK)


async def test_a_changed_input_is_compared_where_both_name_the_file(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    await session._submit_here("bash", {"command": "./deploy.sh prod"}, "r1", {})
    await session.reply("r1", "once", actor="ann", updated_input={"command": "./deploy.sh staging"})
    write("deploy.sh")(tmp_path)
    with pytest.raises(ReopenedError, match="changed after it was approved"):
        await session.claim("r1")


async def test_a_changed_input_without_the_file_does_not_depend_on_it(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    await session._submit_here("bash", {"command": "./deploy.sh"}, "r1", {})
    await session.reply("r1", "once", actor="ann", updated_input={"command": "./other.sh"})
    write("deploy.sh")(tmp_path)
    assert (await session.claim("r1")).input == {"command": "./other.sh"}


# --- for another machine, as a gateway claims


async def remote(ledger: Ledger, operands: list[Operand] | None) -> Session:
    session = await ledger.session("s", cwd="/w", home="/home/ann")
    session.on_behalf_of(None)
    call = {"command": "./deploy.sh"}
    await session.submit_tool("bash", call, request_id="r1", operands=operands)
    await session.reply("r1", "once", actor="ann")
    return session


async def test_a_claim_for_another_machine_names_the_files_to_hash(ledger: Ledger) -> None:
    session = await remote(ledger, [A])
    with pytest.raises(OperandsWantedError) as refused:
        await session.claim("r1")
    assert refused.value.data["wanted"] == [{"paths": ("/w/deploy.sh",)}]
    assert (await session.claim("r1", operands=[A])).request_id == "r1"


async def test_a_claim_with_another_hash_is_refused_and_reopened(ledger: Ledger) -> None:
    session = await remote(ledger, [A])
    with pytest.raises(ReopenedError, match="changed after it was approved"):
        await session.claim("r1", operands=[B])
    assert (await session.state()).pending["r1"].operands == (B,)


async def test_without_operands_at_the_ask_a_claim_needs_none(ledger: Ledger) -> None:
    session = await remote(ledger, None)
    assert (await session.claim("r1")).request_id == "r1"
    assert (await session.claim("r1", operands=[B])).request_id == "r1"


async def test_the_same_runner_claims_again_without_another_look(ledger: Ledger) -> None:
    session = await remote(ledger, [A])
    first = await session.claim("r1", operands=[A], runner="worker")
    assert await session.claim("r1", runner="worker") == first


async def test_an_ask_with_a_claim_that_attaches_hashes_the_files_again(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    await approved(session, "./deploy.sh")
    write("deploy.sh")(tmp_path)
    result = await session.submit_tool("bash", {"command": "./deploy.sh"}, request_id="r1", claim=True)
    assert (result.outcome, result.request.reopened_reason) == (None, "deploy.sh changed after it was approved")
