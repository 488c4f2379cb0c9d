"""README and the first hour, walked twice by one person, in two projects, with a reboot of the machine between."""

from __future__ import annotations

import os
import re
import shlex
import signal
from pathlib import Path

import pytest

from ledger.stores.embedded import stop
from ledger.stores.embedded.folder import DataFolder
from tests.journeys.newcomers import README, Newcomer, blocks, phone_in_hand
from tests.journeys.processes import is_alive
from tests.support.waiting import wait_until
from workers.runtime import background

pytestmark = [pytest.mark.process, pytest.mark.slow]


def walk_readme(person: Newcomer) -> str:
    """Ask in one terminal and answer in another, as the README does; return the name that it made."""
    asking, answering = blocks(README, "console")[:2]
    typed = "\n".join(line.removeprefix("$ ") for line in asking.splitlines() if line.startswith("$ "))
    with person.shell(typed) as asker:
        wait_until(lambda: "try-" in person.run("pending").out, "the ask of the README to wait")
        fresh: str
        (fresh,) = set(re.findall(r"\btry-\d+", person.run("pending").out))
        shown = re.search(r"try-\d+", answering)
        assert shown is not None
        for line in answering.splitlines():
            if line.startswith("$ permission-ledger "):
                words = shlex.split(line.removeprefix("$ permission-ledger ").replace(shown[0], fresh))
                person.run(*words, code=0)
        out, err = asker.communicate(timeout=60)
    assert asker.returncode == 0, err
    assert out.startswith("allowed by ann (always)\n")
    return fresh


def reboot(person: Newcomer) -> None:
    """End every process of the ledger at once, as a machine that goes down does."""
    state = background.read_state(person.data)
    assert state is not None
    server = DataFolder(person.data).pid()
    running = [state.process, *state.workers.values(), *([] if server is None else [server])]
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, running)), "all processes to end")


def test_two_walks_in_two_projects_and_a_reboot_between_them(tmp_path: Path) -> None:
    home = tmp_path / "ann"
    shop = Newcomer(home, "shop")
    try:
        with phone_in_hand() as phone:
            first = [walk_readme(shop), shop.first_hour(phone)]
        assert shop.run("status", "--json", code=0).row["ready"]
        before = {name: shop.run("log", name, "--json", code=0).out for name in first}
        reboot(shop)
        assert shop.run("status", code=8).out == "permission-ledger is not running\n"
        till = Newcomer(home, "till")
        with phone_in_hand() as phone:
            second = [walk_readme(till), till.first_hour(phone)]
        assert not set(first) & set(second)
        assert {name: till.run("log", name, "--json", code=0).out for name in first} == before, "all of it is there"
        assert "git push" in till.run("search", "push", code=0).out
        till.run("verify", "--all", code=0)
        till.run("down", code=0)
    finally:
        shop.run("down")
        stop(shop.data)
