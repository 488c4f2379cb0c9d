"""Secrets in what is asked: judged as they are, and masked in everything that is stored and shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger import DeniedError, DifferentRequestError, InputError, Ledger, Session
from ledger.core.commitments import keyed
from ledger.core.events import Asked, Granted, Replied, ToolFinished
from ledger.core.requests import make_question
from ledger.log.judgements import judge_again
from ledger.masks.own_input import MASK, holds_mask
from tests.api.actors import ANN, OpenLedger, pend, pending_ids, raised, text_of_input_error
from tests.support.waiting import wait_until_async

GITHUB = "ghp" + "_Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp9Oo8N"
OTHER = "ghp" + "_Aa9Bb8Cc7Dd6Ee5Ff4Gg3Hh2Ii1Jj0Kk9Ll8M"
PUSH = f"git push https://ann:{GITHUB}@github.com/acme/web main"
CLAUDE: dict[str, Any] = {"permissions": {"allow": ["Bash(git status)"]}}


async def logged(session: Session) -> str:
    """Return all that the log has of a session, as JSON."""
    events = [one.event async for one in session.events(follow_on=False)]
    return msgspec.json.encode(events).decode()


async def last(session: Session, kind: type[Any]) -> Any:
    return [one.event async for one in session.events(follow_on=False) if isinstance(one.event, kind)][-1]


async def test_a_secret_is_in_no_event_and_no_row_while_the_rule_judged_the_command_itself(ledger: Ledger) -> None:
    rules = {"permission": {"bash": {"git push https://*": "ask", f"*{GITHUB[4:12]}*": "deny", "git fetch*": "allow"}}}
    session = await ledger.session("ses_1", project="shop", rules=rules)
    with pytest.raises(DeniedError):
        await session.ask("bash", [PUSH], request_id="r1")
    await pend(session, "r2", PUSH.replace(GITHUB, OTHER), metadata={"title": f"Push with {OTHER}"})
    result = await session.ask("bash", [f"git fetch https://{OTHER}@github.com/acme/web"], request_id="r3")
    assert result.allowed
    await session.reply("r2", "reject", actor=ANN, message=f"do not put {OTHER} there")
    assert OTHER not in await logged(session)
    shown = [pending.as_json() for pending in await session.pending()] + [result.as_json()]
    assert OTHER not in str(shown)
    asked = await last(session, Asked)
    assert holds_mask(asked.detail.patterns)
    # The rule of the deny names a piece of the other secret, and rules stand in the log as they are.
    assert GITHUB not in await logged(session)


async def test_the_same_secret_has_the_same_mask_in_all_requests_of_a_deployment(open_ledger: OpenLedger) -> None:
    masks = set()
    for number in range(2):
        session = await (await open_ledger()).session(f"ses_{number}")
        await pend(session, f"r{number}", f"deploy --token {GITHUB} {number}")
        found = MASK.search((await session.pending())[0].request.patterns[0])
        assert found is not None
        masks.add(found[0])
    assert len(masks) == 1


async def test_asking_again_attaches_and_another_secret_is_another_request(open_ledger: OpenLedger) -> None:
    session = await (await open_ledger()).session("ses_1")
    await pend(session, "r1", PUSH)
    elsewhere = await (await open_ledger()).attach("ses_1")
    assert (await elsewhere.submit("bash", [PUSH], request_id="r1")).outcome is None
    with pytest.raises(DifferentRequestError):
        await elsewhere.submit("bash", [PUSH.replace(GITHUB, OTHER)], request_id="r1")
    await session.reply("r1", "once", actor=ANN)
    assert (await elsewhere.submit("bash", [PUSH], request_id="r1")).allowed


async def test_a_digest_in_the_log_confirms_no_guess_of_a_secret(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "r1", "mysql -u root -phunter2 shop")
    asked = await last(session, Asked)
    guess = make_question("bash", ["mysql -u root -phunter2 shop"]).digest
    assert asked.digest not in (guess, keyed(guess, asked.detail.salt))
    assert "hunter2" not in await logged(session)


async def test_a_grant_for_a_call_with_a_secret_is_neither_offered_nor_made(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "r1", PUSH, always=[PUSH, "git push *"])
    (pending,) = await session.pending()
    assert pending.request.always == ("git push *",)
    assert any("is not remembered" in reason for reason in pending.request.still_asked)
    edited = session.reply("r1", "always", actor=ANN, patterns=[f"git push https://*{GITHUB}*"])
    assert "has a secret in it (github)" in await text_of_input_error(edited)
    await session.reply("r1", "always", actor=ANN)
    assert [one.grant.pattern for one in await session.approved()] == ["git push *"]
    for granting in (session.grant("bash", PUSH), ledger.grant_in_project("shop", "bash", PUSH)):
        with pytest.raises(InputError, match=r"has a secret in it \(github\)"):
            await granting


async def test_a_grant_releases_no_pending_request_with_a_mask(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    secretly = f"deploy --token {GITHUB} web"
    await pend(session, "r1", secretly)
    await pend(session, "r2", "deploy web", always=["deploy *"])
    await session.reply("r2", "always", actor=ANN)
    assert await pending_ids(session) == ["r1"]
    # Asked anew it is judged by its own bytes, and the grant allows it.
    assert (await session.submit("bash", [secretly], request_id="r3")).allowed


async def test_a_text_that_looks_like_a_mask_loosens_nothing(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permission": {"bash": {"*": "allow"}}})
    forged = "echo {secret:github:0123456789ab}"
    result = await session.submit("bash", [forged], request_id="r1")
    assert result.outcome is None
    assert forged not in await logged(session)
    assert "{secret:mask:" in await logged(session)


async def waits(session: Session, request_id: str) -> None:
    async def pending() -> bool:
        return await pending_ids(session) == [request_id]

    await wait_until_async(pending, f"{request_id} to be pending")


async def test_an_edit_leaves_the_mask_alone_and_the_asker_runs_its_own_bytes(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=CLAUDE, dialect="claude", cwd="/repo")
    own = {"command": PUSH, "timeout": 60}
    asking = asyncio.create_task(session.ask_tool("Bash", own, request_id="r1"))
    await waits(session, "r1")
    shown = (await session.pending())[0].request.input
    assert holds_mask(shown)
    touched = text_of_input_error(
        session.reply("r1", "once", actor=ANN, updated_input={**shown, "command": "git push"})
    )
    assert "`command` holds a masked secret" in await touched
    brought = text_of_input_error(session.reply("r1", "once", actor=ANN, updated_input={**shown, "x": f"use {OTHER}"}))
    assert "the changed input has a secret in it (github)" in await brought
    edited = {**shown, "timeout": 5}
    for _ in range(2):
        await session.reply("r1", "once", actor=ANN, updated_input=edited)
    assert (await asking).updated_input == {**own, "timeout": 5}
    assert (await session.result("r1")).updated_input == edited
    assert (await session.submit_tool("Bash", own, request_id="r1")).updated_input == {**own, "timeout": 5}
    await session.note_tool_finished("r1", tool_input={**own, "timeout": 5}, output=f"pushed with {GITHUB}")
    finished: ToolFinished = await last(session, ToolFinished)
    assert finished.as_asked is True
    assert GITHUB not in await logged(session)
    assert (await last(session, Replied)).detail.input == edited


async def test_a_run_as_asked_is_recognised_and_another_secret_is_not(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    for number, ran in enumerate((PUSH, PUSH.replace(GITHUB, OTHER))):
        request_id = f"r{number}"
        await pend(session, request_id, PUSH, tool_name="Bash", tool_input={"command": PUSH})
        await session.reply(request_id, "once", actor=ANN)
        await session.note_tool_finished(request_id, tool_input={"command": ran})
        assert (await last(session, ToolFinished)).as_asked is (ran == PUSH)
    await pend(session, "r9", PUSH)
    await session.reply("r9", "once", actor=ANN)
    question = make_question("bash", [PUSH])
    await session.note_tool_finished("r9", ran=question)
    finished = await last(session, ToolFinished)
    assert finished.as_asked is True
    assert finished.digest != keyed(question.digest, finished.detail.salt)


async def test_the_folder_of_a_command_with_a_secret_is_asked_about_once(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    options = {"profile": "faithful", "cwd": f"{tmp_path}/project", "home": f"{tmp_path}/home"}
    rules = {"permission": {"bash": "allow"}}
    session = await ledger.session("ses_1", rules=rules, options=options, cwd=f"{tmp_path}/project")
    call = {"command": f"cd {tmp_path}/outside && curl -u ann:hunter22 h", "workdir": f"{tmp_path}/project"}
    first = await session.submit_tool("bash", call, request_id="r1")
    assert (first.outcome, first.request_id) == (None, "r1.external_directory")
    await session.reply(first.request_id, "once", actor=ANN)
    second = await session.submit_tool("bash", call, request_id="r1")
    assert (second.outcome, second.request_id) == ("allowed", "r1")
    assert "hunter22" not in await logged(session)
    # It was allowed for this command, and not for the same one with another password.
    other = {**call, "command": call["command"].replace("hunter22", "hunter33")}
    assert (await session.submit_tool("bash", other, request_id="r2")).outcome is None


async def test_the_same_feedback_with_a_secret_again_is_no_other_answer(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "r1")
    for _ in range(2):
        await session.reply("r1", "reject", actor=ANN, message=f"use {OTHER} instead")
    assert OTHER not in await logged(session)


async def test_reasons_of_cancels_grants_and_revocations_are_masked(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "r1")
    await session.cancel("r1", reason=f"{OTHER} is gone")
    grant = await session.grant("bash", "ls *", reason=f"{OTHER} needs it")
    await session.revoke(grant.grant.grant_id, reason=f"{OTHER} leaked")
    await session.close(reason=f"{OTHER} leaked")
    assert OTHER not in await logged(session)
    assert (await last(session, Granted)).detail.reason.startswith("{secret:github:")


async def test_masks_can_be_switched_off(open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await (await open_ledger(masks=False)).session("ses_1")
    await pend(session, "r1", PUSH)
    assert GITHUB in await logged(session)
    monkeypatch.setenv("PERMISSION_LEDGER_MASKS", "off")
    session = await (await open_ledger()).session("ses_2")
    await pend(session, "r1", PUSH)
    assert GITHUB in await logged(session)
    # Masked by a process from now on, it is still the same request.
    session = await (await open_ledger(masks=True)).attach("ses_2")
    assert (await session.submit("bash", [PUSH], request_id="r1")).outcome is None
    monkeypatch.setenv("PERMISSION_LEDGER_MASKS", "maybe")
    error = await raised(opened(open_ledger))
    assert "PERMISSION_LEDGER_MASKS is `maybe`; it must be `on` or `off`" in error.text


async def opened(open_ledger: OpenLedger) -> Ledger:
    return await open_ledger()


async def test_a_claim_judges_the_askers_own_bytes_and_a_claim_from_the_log_the_masks(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    secretly = f"deploy --token {GITHUB} web"
    grant = await ledger.grant_in_project("shop", "bash", "deploy *")
    result = await session.ask("bash", [secretly], request_id="r1", claim="ci")
    assert result.allowed
    assert result.request.grants == (grant.grant.grant_id,)
    assert (await session.submit("bash", [secretly], request_id="r2")).allowed
    # Without the asker's bytes nobody can say what would run, so a person is asked.
    error = await raised(session.claim("r2", runner="other"))
    assert error.code == "REOPENED"
    assert await pending_ids(session) == ["r2"]
    assert GITHUB not in await logged(session)


async def test_a_permit_runs_the_askers_own_bytes(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=CLAUDE, dialect="claude", cwd="/repo")
    own = {"command": PUSH, "timeout": 60}

    async def run() -> Any:
        async with session.permit_tool("Bash", own, request_id="r1") as permit:
            permit.output = f"done with {GITHUB}"
            return permit.input

    running = asyncio.create_task(run())
    await waits(session, "r1")
    shown = (await session.pending())[0].request.input
    await session.reply("r1", "once", actor=ANN, updated_input={**shown, "timeout": 1})
    assert await running == {**own, "timeout": 1}
    assert GITHUB not in await logged(session)


async def test_an_ask_with_a_mask_is_not_decidable_judged_again_from_the_log(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permission": {"bash": {"deploy *": "allow"}}})
    assert (await session.submit("bash", [f"deploy --token {GITHUB} web"])).allowed
    assert (await session.submit("bash", ["deploy web"])).allowed
    again = [one async for one in judge_again(ledger.store, "ses_1")]
    assert [one.result for one in again] == ["not_decidable", "same"]
    assert "it holds a masked secret" in str(again[0].reason)
