"""README, the first hour and a team's set-up, walked twice by one person, in two projects, with a reboot between."""

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
from tests.journeys.team import Team
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
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
    wait_until(lambda: not background.is_up(person.data), "all processes to end")
    wait_until(lambda: server is None or not is_alive(server), "the server to end")


def walk(person: Newcomer) -> list[str]:
    """Walk README and the first hour; return the sessions that they made."""
    with phone_in_hand() as phone:
        made = [walk_readme(person), person.first_hour(phone)]
    assert person.run("status", "--json", code=0).row["ready"]
    wait_until(lambda: made[1] in person.run("search", "push", "--json").out, "the search of what was asked")
    return made


def logs(line: CommandLine, sessions: list[str]) -> dict[str, str]:
    return {name: line("log", name, "--json", code=0).out for name in sessions}


@pytest.mark.timeout(600)
def test_two_walks_in_two_projects_and_a_reboot_between_them(tmp_path: Path) -> None:
    home = tmp_path / "ann"
    shop, server = Newcomer(home, "shop"), RealServer(tmp_path / "server")
    server.start()
    try:
        first, teams = walk(shop), Team(shop, server.url)
        shop.run("down", code=0)
        with teams.up() as whole:
            of_team = [teams.walk(whole)]
            before = logs(shop.run, first), logs(teams.run, of_team)
            reboot(shop)
        server.kill9()
        assert shop.run("status", code=8).out == "permission-ledger is not running\n"
        server.start()

        till = Newcomer(home, "till")
        second, teams = walk(till), Team(till, server.url)
        till.run("down", code=0)
        with teams.up() as whole:
            second.append(teams.walk(whole))
            assert whole.end() == 0
        assert not {*first, *of_team} & set(second)
        assert (logs(till.run, first), logs(teams.run, of_team)) == before, "all of it is there"
        for line in (till.run, teams.run):
            line("verify", "--all", code=0)
    finally:
        shop.run("down")
        stop(shop.data)
        server.remove()
