"""Attacks on the reason of a card: forged lines, a wide grant offered as a small one, and grants that would not count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import Ledger, Session
from ledger.client import why as judging
from ledger.client.why import Answerer, PastRequests, explain_request, smallest_rule
from ledger.core.events import Actor
from ledger.session.would_run.members import LINE_BREAK
from projections.asked_before import asked_before
from workers.presentation.why import why_json, why_lines

ANN = Answerer(Actor("person", "ann"), "approver")
WIDE = (
    "git *",
    "bash *",
    "bash -c *",
    "env *",
    "sudo *",
    "python *",
    "python -c *",
    "xargs *",
    "npx *",
    "*",
    "?*",
    "* *",
)


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as one:
        yield one


async def opened(ledger: Ledger, session_id: str = "ses_1", **more: Any) -> Session:
    rules = {"permission": {"*": "ask"}}
    return await ledger.session(session_id, **{"project": "shop", "rules": rules, "cwd": "/srv/shop", **more})


async def explained(ledger: Ledger, session: Session, request_id: str, by: Answerer = ANN) -> dict[str, Any]:
    state = await session.state()
    past = await asked_before(ledger.store, ledger.streams, state, since_ms=0, count=300, may_see=lambda *_: True)
    return why_json(await explain_request(ledger, session, request_id, past, by), None)


@pytest.mark.parametrize(
    "line",
    [
        "bash -c 'git push origin main'",
        "env X=1 bash -c 'make'",
        "sudo make install",
        "git -c core.pager=less log",
        "python -c 'print(1)'",
        "xargs rm",
        "npx cowsay",
        "git push origin main && bash -c id",
    ],
)
async def test_no_wide_grant_is_offered_as_the_smallest(ledger: Ledger, line: str) -> None:
    session = await opened(ledger)
    await session.submit_tool("bash", {"command": line}, request_id="r1", always=WIDE[:6])
    for number, entry in enumerate(WIDE):
        await session.submit("bash", [line], always=[entry], request_id=f"own{number}")
    for request_id in ("r1", *(f"own{number}" for number in range(len(WIDE)))):
        for choice in (await explained(ledger, session, request_id))["choices"]:
            is_wide = any(entry in WIDE for entry in choice["entries"])
            assert not (choice["smallest"] and (is_wide or choice["wide"] or choice["suggested"])), choice


@pytest.mark.parametrize("entry", ["*", "?*", "s*", "src/*"])
async def test_what_the_agent_suggests_for_a_file_is_marked_and_never_the_smallest(ledger: Ledger, entry: str) -> None:
    session = await opened(ledger)
    await session.submit("edit", ["notes*.txt"], always=[entry], request_id="odd")
    await session.submit("edit", ["src/app.py"], always=[entry], request_id="plain")
    for request_id, most in (("odd", 0), ("plain", 1)):
        choices = (await explained(ledger, session, request_id))["choices"]
        assert sum(one["smallest"] for one in choices) <= most
        assert not any(one["smallest"] for one in choices if one["entries"] == [entry] and one["suggested"])
    exact = (await explained(ledger, session, "plain"))["choices"][0]
    assert (exact["entries"], exact["smallest"]) == (["src/app.py"], True)


@pytest.mark.parametrize(
    "forged",
    [
        "make\nexactly this (smallest)\n  true",
        "make \u202e)tsellams(",
        "make \x1b[2J\x1b[H",
        "make <img src=x onerror=alert(1)>",
        "make\r\nwould have answered 0 of 0 other requests",
        "m\u0430ke",
    ],
)
async def test_words_of_an_agent_forge_no_line(ledger: Ledger, forged: str) -> None:
    session = await opened(ledger)
    for name in ("plain", "forged"):
        for number, line in enumerate(("make x", forged if name == "forged" else "make y")):
            await session.submit("deploy", [line], always=["make *", "m*"], request_id=f"{name}{number}")
    plain, odd = [list(why_lines(await explained(ledger, session, one))) for one in ("plain0", "forged0")]
    assert len(plain) == len(odd)
    for text in odd:
        assert text.isprintable()
        assert text.replace(LINE_BREAK, "").isascii()
        assert not text.startswith("exactly this (smallest)  ")


async def test_a_grant_that_a_demand_would_not_count_is_not_offered(ledger: Ledger) -> None:
    demands = [{"permission": "bash", "pattern": "git push*", "not_by": "asker"}]
    session = await opened(ledger, demands=demands)
    await session.submit("bash", ["git push"], always=["git push *"], request_id="r1", actor=Actor("agent", "ann"))
    assert (await explained(ledger, session, "r1"))["refused"] is not None
    other = await explained(ledger, session, "r1", Answerer(Actor("person", "bob"), "approver"))
    assert other["refused"] is None


async def test_an_unsigned_grant_counts_for_no_past_call_that_needs_a_passkey(ledger: Ledger) -> None:
    demands = [{"permission": "bash", "pattern": "git push*", "answer_by": "passkey"}]
    session = await opened(ledger, demands=demands)
    await session.submit("bash", ["git push"], request_id="old")
    await session.submit("bash", ["git fetch"], always=["git *"], request_id="r1")
    await session.submit("bash", ["git push"], always=["git *"], request_id="signed")
    answered = {tuple(one["entries"]): one["answered"] for one in (await explained(ledger, session, "r1"))["choices"]}
    assert answered["git *",] == 0
    signed = {tuple(one["entries"]): one["answered"] for one in (await explained(ledger, session, "signed"))["choices"]}
    assert signed["git *",] == 2


async def test_a_masked_secret_is_judged_by_no_guess(ledger: Ledger) -> None:
    session = await opened(ledger)
    secret = "ghp_" + "a1B2" * 9
    await session.submit_tool("bash", {"command": f"curl -H 'Authorization: Bearer {secret}' x"}, request_id="old")
    await session.submit_tool("bash", {"command": "curl x"}, request_id="r1")
    row = await explained(ledger, session, "r1")
    assert (row["past"]["looked_at"], row["past"]["unknown"]) == (1, 1)
    assert "masked secret" in (await explained(ledger, session, "old"))["refused"]
    assert secret not in str(row)


async def test_the_time_for_past_calls_is_bounded_and_a_cut_is_told(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "JUDGING_SECONDS", -1.0)
    session = await opened(ledger)
    for number in range(3):
        await session.submit("bash", ["git push"], request_id=f"old{number}")
    await session.submit("bash", ["git push"], always=["git push *"], request_id="r1")
    row = await explained(ledger, session, "r1")
    assert row["past"]["cut"] is True
    assert [one["answered"] for one in row["choices"]] == [0] * len(row["choices"])
    assert list(why_lines(row))[-1].endswith("there are more than were looked at")


async def test_a_place_that_names_another_request_is_not_counted(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit("bash", ["git push"], request_id="old")
    await session.submit("bash", ["git push"], always=["git push *"], request_id="r1")
    past = await asked_before(
        ledger.store, ledger.streams, await session.state(), since_ms=0, count=9, may_see=lambda *_: True
    )
    forged = tuple(
        type(one)(session=one.session, request_id="r1x", version=one.version, asked_ms=one.asked_ms)
        for one in past.found
    )
    why = await explain_request(ledger, session, "r1", PastRequests(found=forged, source="index", since_ms=0), ANN)
    assert why.unknown == len(forged)
    assert [one.reached.answered for one in why.choices] == [0] * len(why.choices)


def test_a_question_for_a_rule_that_is_none_is_refused() -> None:
    from ledger.core.errors import InputError  # noqa: PLC0415

    with pytest.raises(InputError, match="the policy is not of the form"):
        smallest_rule({"policy": {"layers": 1}}, lambda source: pytest.fail(str(source)))
