"""The files that a call executes, in a request: found and hashed with the ask, recorded, shown, and compared."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Unpack

import pytest

from ledger import InputError, Ledger, Session
from ledger.core.events import Asked
from ledger.core.limits import OPERAND_COUNT
from ledger.core.operands import Operand, check_operands, named_in, operand_change, operand_text
from ledger.core.requests import ToolAskOptions
from ledger.session.would_run.description import describe_request
from workers.cli.description import call_in_line, description_lines

A: Final = "a" * 64
B: Final = "b" * 64
SCRIPT: Final = Operand("/w/deploy.sh", A, size_bytes=3)


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


async def opened(ledger: Ledger, folder: Path) -> Session:
    (folder / "deploy.sh").write_bytes(b"echo 1\n")
    return await ledger.session("s", cwd=str(folder), home=str(folder))


def by_path(operands: tuple[Operand, ...] | None) -> dict[str, str | None]:
    return {one.path: one.sha256 for one in operands or ()}


# --- in the ask


async def asked(session: Session, command: str, **more: Unpack[ToolAskOptions]) -> tuple[Operand, ...] | None:
    """The operands of a pending ask of this process."""
    await session._submit_here("bash", {"command": command}, "r1", more)
    return (await session.state()).pending["r1"].operands


async def test_an_ask_of_this_process_records_the_files_with_their_hashes(ledger: Ledger, tmp_path: Path) -> None:
    found = await asked(await opened(ledger, tmp_path), "./deploy.sh prod")
    assert found == (Operand(f"{tmp_path}/deploy.sh", hashlib.sha256(b"echo 1\n").hexdigest(), size_bytes=7),)


async def test_the_folder_of_the_call_counts(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "Makefile").write_bytes(b"all:\n")
    found = await asked(await opened(ledger, tmp_path), "make", cwd=f"{tmp_path}/app")
    assert list(by_path(found)) == [f"{tmp_path}/app/Makefile"]


async def test_a_call_that_executes_no_file_has_no_operands(ledger: Ledger, tmp_path: Path) -> None:
    assert await asked(await opened(ledger, tmp_path), "git push") is None


async def test_operands_that_the_caller_gives_are_not_looked_for(ledger: Ledger, tmp_path: Path) -> None:
    assert await asked(await opened(ledger, tmp_path), "./deploy.sh", operands=[SCRIPT]) == (SCRIPT,)


async def test_asking_again_attaches_although_the_file_has_changed(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    before = await asked(session, "./deploy.sh")
    (tmp_path / "deploy.sh").write_bytes(b"echo 2\n")
    assert await asked(session, "./deploy.sh") == before


async def test_a_prerequisite_has_no_operands_and_the_call_behind_it_has(ledger: Ledger, tmp_path: Path) -> None:
    session = await ledger.session("s", dialect="opencode", cwd=str(tmp_path), home=str(tmp_path))
    await session._submit_here("bash", {"command": "cd /srv/x && ./deploy.sh"}, "r1", {})
    first = next(iter((await session.state()).pending.values()))
    assert (first.permission, first.operands) == ("external_directory", None)
    await session.reply(first.request_id, "once")
    await session._submit_here("bash", {"command": "cd /srv/x && ./deploy.sh"}, "r1", {})
    found = (await session.state()).pending["r1"].operands
    assert found == (Operand("/srv/x/deploy.sh", found="missing"),)


async def test_an_ask_by_patterns_may_bring_operands(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    result = await session.submit("bash", ["./deploy.sh"], operands=[{"path": "/w/deploy.sh", "sha256": A}])
    assert result.request.operands == (Operand("/w/deploy.sh", A),)
    assert (await session.submit("bash", ["./deploy.sh"])).request.operands is None


async def test_the_log_has_the_operands_in_what_can_be_redacted(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    found = await asked(session, "./deploy.sh")
    events = [one.event async for one in session.events(follow_on=False)]
    (event,) = (one for one in events if isinstance(one, Asked))
    assert event.detail is not None
    assert event.detail.operands == found


# --- what a person sees


async def test_the_card_names_each_file_with_its_hash(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    (tmp_path / "link.sh").symlink_to("deploy.sh")
    await asked(session, "./deploy.sh && ./link.sh && ./gone.sh")
    (pending,) = await session.pending()
    digest = hashlib.sha256(b"echo 1\n").hexdigest()
    texts = [one.text for one in describe_request(pending.request).sections if one.kind == "operand"]
    assert texts == [
        f"deploy.sh (SHA-256 {digest[:12]}…, 7 bytes)",
        f"link.sh → {tmp_path}/deploy.sh (SHA-256 {digest[:12]}…, 7 bytes)",
        "gone.sh (missing)",
    ]
    row = pending.as_json()
    assert row["operands"][0] == {"path": f"{tmp_path}/deploy.sh", "sha256": digest, "size_bytes": 7}
    assert row["operands"][2] == {"path": f"{tmp_path}/gone.sh", "found": "missing"}
    assert "file that it runs: deploy.sh (SHA-256 " in "\n".join(description_lines(pending.request))
    assert call_in_line(pending.request).endswith(" (runs `deploy.sh`, `link.sh`, `gone.sh`)")


async def test_a_card_without_operands_says_nothing_of_them(ledger: Ledger, tmp_path: Path) -> None:
    session = await opened(ledger, tmp_path)
    await asked(session, "git push")
    (pending,) = await session.pending()
    assert "operands" not in pending.as_json()
    assert "runs" not in call_in_line(pending.request)


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        (SCRIPT, "deploy.sh (SHA-256 aaaaaaaaaaaa…, 3 bytes)"),
        (Operand("/w/x", found="missing"), "x (missing)"),
        (Operand("/w/x", found="unreadable"), "x (unreadable)"),
        (Operand("/w/x", found="too large", size_bytes=9), "x (too large to be hashed: a change of it is not noticed)"),
        (Operand("/srv/x", A, real="/opt/x"), "/srv/x → /opt/x (SHA-256 aaaaaaaaaaaa…)"),
    ],
)
def test_an_operand_is_told_in_one_line(operand: Operand, text: str) -> None:
    assert operand_text(operand, "/w") == text


@pytest.mark.parametrize(
    ("path", "folder", "name"),
    [
        ("/w/a", "/w", "a"),
        ("/w/a", "/w/", "a"),
        ("/wx/a", "/w", "/wx/a"),
        ("/w", "/w", "/w"),
        ("/a", "/", "a"),
        ("/w/a", None, "/w/a"),
        ("/w/../a", "/w", "/w/../a"),
    ],
)
def test_a_file_is_named_by_its_place_in_the_folder(path: str, folder: str | None, name: str) -> None:
    assert named_in(path, folder) == name


# --- what changed since


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        ([SCRIPT], [SCRIPT], None),
        ([], [], None),
        ([SCRIPT], [Operand("/w/deploy.sh", B, size_bytes=3)], "deploy.sh changed after it was approved"),
        ([SCRIPT], [Operand("/w/deploy.sh", found="missing")], "deploy.sh was removed after it was approved"),
        ([SCRIPT], [Operand("/w/deploy.sh", found="unreadable")], "deploy.sh is unreadable since it was approved"),
        ([SCRIPT], [Operand("/w/deploy.sh", found="too large")], "deploy.sh is too large since it was approved"),
        (
            [Operand("/w/deploy.sh", found="missing")],
            [SCRIPT],
            "deploy.sh did not exist when it was approved",
        ),
        (
            [Operand("/w/deploy.sh", found="too large", size_bytes=5)],
            [Operand("/w/deploy.sh", found="too large", size_bytes=6)],
            "deploy.sh changed after it was approved",
        ),
        (
            [SCRIPT],
            [Operand("/w/deploy.sh", A, real="/w/other.sh", size_bytes=3)],
            "deploy.sh leads to /w/other.sh since it was approved",
        ),
        ([Operand("/w/deploy.sh", A, real="/w/deploy.sh")], [Operand("/w/deploy.sh", A)], None),
        ([], [Operand("/w/GNUmakefile", A)], "GNUmakefile did not exist when it was approved"),
        (
            [Operand("/w/Makefile", A)],
            [Operand("/w/GNUmakefile", A)],
            "GNUmakefile did not exist when it was approved",
        ),
        ([SCRIPT], [], "deploy.sh was removed or replaced after it was approved"),
        ([Operand("/w/x", found="missing")], [], None),
        ([], [Operand("/w/x", found="missing")], None),
    ],
)
def test_a_change_since_the_approval_is_told_in_words(
    before: list[Operand], now: list[Operand], says: str | None
) -> None:
    assert operand_change(before, now, "/w") == says


def test_after_an_edit_only_the_files_of_both_calls_are_compared() -> None:
    other = Operand("/w/other.sh", B)
    assert operand_change([SCRIPT], [other], "/w", is_edited=True) is None
    changed = Operand("/w/deploy.sh", B, size_bytes=3)
    assert operand_change([SCRIPT], [other, changed], "/w", is_edited=True) == "deploy.sh changed after it was approved"


# --- from outside


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("x", "operands are a list of files, not str"),
        (3, "operands are a list of files, not int"),
        ([3], "an operand is {path, sha256, found, real, size_bytes}: Expected `object`, got `int`"),
        ([{"sha256": A}], "Object missing required field `path`"),
        ([{"path": "deploy.sh", "sha256": A}], "the path 'deploy.sh' of an operand must be absolute"),
        ([{"path": "/a\0", "sha256": A}], "the path '/a\\x00' of an operand must be absolute"),
        ([{"path": "/a", "sha256": A, "real": "b"}], "the path 'b' of an operand must be absolute"),
        ([{"path": "/" + "a" * 5000, "sha256": A}], "of an operand takes more than 4096 bytes"),
        ([{"path": "/a"}], "needs its SHA-256 exactly if it was found as a file"),
        ([{"path": "/a", "sha256": A, "found": "missing"}], "needs its SHA-256 exactly if it was found as a file"),
        ([{"path": "/a", "found": "gone"}], "Invalid enum value 'gone'"),
        ([{"path": "/a", "sha256": "A" * 64}], "must be 64 lower-case hex characters"),
        ([{"path": "/a", "sha256": A, "size_bytes": -1}], "the size of the operand '/a' is negative"),
        ([{"path": "/a", "sha256": A}] * 2, "the operand '/a' is listed twice"),
        ([{"path": f"/{n}", "found": "missing"} for n in range(OPERAND_COUNT + 1)], "33 operands are too many"),
        ([{"path": "/\ud800", "sha256": A}], "is not valid Unicode"),
    ],
)
def test_operands_that_are_none_are_refused_in_words(given: Any, says: str) -> None:
    with pytest.raises(InputError) as refused:
        check_operands(given)
    assert says in refused.value.text
