"""All faces say the same thing in the same words: answer page, card, terminal, messages, service worker."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from ledger import Ledger, Pending, Timeouts
from ledger.session.state import SessionState
from ledger.testing import TestClock
from workers.cli.description import card_lines
from workers.cli.pending import COLUMNS, pending_cells
from workers.cli.watch_screen import WatchedScreen, screen
from workers.gateway import inbox
from workers.notifier.plan import Reminder
from workers.notifier.text import reminder_message
from workers.presentation import labels
from workers.presentation.answer_page import question_page
from workers.presentation.labels import ANSWERS, DANGERS, approve_label, sentence

SCRIPTS: Final = Path(inbox.__file__).parent / "static" / "js"
PUSH: Final = "sudo git push origin main"


def _table(name: str) -> dict[str, str]:
    """A table of `labels.js`, which is written as JSON but for its last comma."""
    found = re.search(rf"export const {name} = (\{{.*?\}});", (SCRIPTS / "labels.js").read_text(), re.DOTALL)
    assert found is not None
    table: dict[str, str] = json.loads(found[1].replace(",\n}", "\n}"))
    return table


def test_the_card_has_the_words_of_the_table() -> None:
    assert _table("ANSWERS") == ANSWERS
    assert _table("OUTCOMES") == labels.OUTCOMES
    assert _table("DANGERS") == DANGERS
    assert _table("EFFECTS") == labels.EFFECTS
    words = _table("LABELS")
    assert words == {name: getattr(labels, name.upper()) for name in words}


@pytest.mark.parametrize("script", [*SCRIPTS.rglob("*.js")], ids=lambda one: one.name)
def test_no_script_writes_one_of_the_words_by_itself(script: Path) -> None:
    words = {*_table("LABELS").values(), *ANSWERS.values()} - {labels.WHY, labels.APPROVED, "Reject", labels.APPROVE}
    if script.name in ("labels.js", "worker.js"):
        return
    text = script.read_text()
    literals = [
        one for word in words for one in (f'"{word}"', f'"{sentence(word)}"', f'"{word} ', f'"{sentence(word)}:')
    ]
    assert [one for one in literals if one in text] == []


def test_the_service_worker_has_the_words_of_the_table() -> None:
    text = (SCRIPTS / "worker.js").read_text()
    assert f'"{sentence(labels.NO_DEADLINE)}"' in text
    assert text.count(f"{sentence(labels.DANGER)}: ") == 2
    assert f'title: "{ANSWERS["reject"]}"' in text


class Shown:
    """A request with everything to say, as each face shows it."""

    def __init__(self, state: SessionState, pending: Pending) -> None:
        self.state, self.pending, self.request = state, pending, pending.request

    def page(self) -> str:
        page = question_page(self.state, self.request, "eve", self.request.asked_ms, ("once", "reject"))
        return html.unescape(re.sub(r"<[^>]+>", " ", page))

    def terminal(self) -> str:
        return "\n".join(card_lines(self.pending))

    def message(self) -> str:
        reminder = Reminder(self.state, self.request, 0)
        return reminder_message([reminder], lambda _: None, None, self.request.asked_ms).body

    def watch(self) -> str:
        state = WatchedScreen()
        state.show([self.pending])
        rows = screen(state, 200, 10, self.request.asked_ms)
        state.press("enter", 0.0)
        state.drawn(200, 60)
        card = screen(state, 200, 60, self.request.asked_ms)
        return "\n".join(str(one) for one in (*rows.renderables, *card.renderables))

    def table(self) -> str:
        cells = pending_cells(self.pending)
        return "\n".join(f"{name}: {cell}" for name, cell in zip(COLUMNS, cells, strict=True))


FACES: Final[dict[str, Callable[[Shown], str]]] = {
    "answer page": Shown.page,
    "pending REQUEST": Shown.terminal,
    "message": Shown.message,
    "watch": Shown.watch,
    "pending": Shown.table,
}

WHOLE: Final = ("answer page", "pending REQUEST", "watch")
"""The faces that show a request whole; the others are rows and messages."""

SAID: Final[dict[str, tuple[str, ...]]] = {
    labels.ASKED_BY: (*WHOLE, "message"),
    labels.CALLS_ITSELF: (*WHOLE, "message"),
    labels.FOLDER: (*WHOLE, "message"),
    labels.NO_DEADLINE: (*WHOLE, "message"),
    labels.TIME_LEFT: WHOLE,
    labels.WHY: ("answer page",),
    labels.ASKED_BECAUSE: ("pending REQUEST", "watch"),
    labels.DEMANDED: WHOLE,
    labels.APPROVED: (*WHOLE, "message"),
    f"{labels.WAITS_FOR} 1 more person": (*WHOLE, "message"),
    "2 people must approve it": (*WHOLE, "message"),
    labels.STILL_ASKS: ("pending REQUEST", "watch"),
    DANGERS["privileges"]: tuple(FACES),
}


@pytest.fixture
async def shown(clock: TestClock) -> AsyncIterator[Shown]:
    async with Ledger.connect("memory://", clock=clock) as ledger:
        session = await ledger.session(
            "ses_1",
            project="shop",
            agent="build",
            rules={"permission": {"bash": "ask"}},
            demands=[{"approvers": 2}],
            timeouts=Timeouts(attended=None, unattended=None, cap=None),
        )
        await session.submit_tool("bash", {"command": f"{PUSH} && printf x | dd of=out"}, request_id="r1", cwd="/srv")
        await session.reply("r1", "once", actor="ada")
        (pending,) = await ledger.pending("ses_1")
        yield Shown(session.stream.state, pending)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("words", SAID)
async def test_each_face_says_it_in_these_words(shown: Shown, words: str, face: str) -> None:
    if face in SAID[words]:
        assert words in FACES[face](shown).casefold()


async def test_the_danger_of_a_request_is_never_called_by_its_code(shown: Shown) -> None:
    assert [face for face, show in FACES.items() if "privileges" in show(shown).replace("other rights", "")] == []


async def test_the_yes_to_a_request_of_several_people_has_one_label(shown: Shown) -> None:
    assert approve_label(1, 2) == "Approve (2 of 2)"
    assert approve_label(1, 2) in shown.page()


async def test_the_keys_of_watch_have_the_words_of_the_answers() -> None:
    async with Ledger.connect("memory://") as ledger:
        session = await ledger.session("ses_1")
        await session.submit("bash", ["git push"], always=["git push *"])
        state = WatchedScreen()
        state.show(await ledger.pending("ses_1"))
        state.press("enter", 0.0)
        state.drawn(80, 30)
        keys = dict(state.keys_now())
        assert keys["o"] == ANSWERS["once"].lower()
        assert keys["a"] == ANSWERS["always"].lower()
        assert keys["r"] == ANSWERS["reject"].lower()
        assert len(str(screen(state, 80, 30, 0).renderables[-1])) <= 80
