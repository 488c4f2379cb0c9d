"""A hint names a command that works as it is typed, and an error names its own cause."""

from __future__ import annotations

import ast
import re
import shlex
import socket
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest
import redis

from tests.house.sources import PACKAGES, files, nodes_of
from tests.support.command_line import CommandLine
from tests.support.rows import every
from tests.workers.cli.filling import fill
from tests.workers.cli.test_help import ALL
from workers.cli import base
from workers.gateway.server import listener_on

if TYPE_CHECKING:
    from tests.support.servers import StartServer

COMMAND: Final = re.compile(r"`(permission-ledger [^`]*)`")
FILLED_IN: Final = "x"
"""Stands for what an f-string fills in, and for a word in capitals."""


def texts_of(nodes: list[ast.AST]) -> list[str]:
    """Return every text of a source that somebody may be told: all but docstrings."""
    found: list[str] = []
    # A text that stands alone is a docstring; a piece of an f-string is told with the others only.
    passed = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else FILLED_IN for one in node.values]
            passed |= {id(one) for one in node.values}
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            found.append(node.value)
    return found


@cache
def named() -> list[str]:
    """Return the commands that texts of the sources name."""
    return sorted(
        {
            command
            for file in files(*PACKAGES)
            for text in texts_of(nodes_of(file))
            for command in COMMAND.findall(text)
            if command.split()[1] not in (FILLED_IN, "COMMAND")
        }
    )


HINTED: Final = sorted({command for hint in base._HINTS.values() for command in COMMAND.findall(hint)})


def test_hints_were_found() -> None:
    assert len(named()) > 8
    assert len(HINTED) > 5


@every("command", named)
def test_a_command_that_a_text_names_parses(command: str) -> None:
    words = [FILLED_IN if re.fullmatch("[A-Z]+", word) else word for word in shlex.split(command)[1:]]
    name = next(name for name in sorted(ALL, key=len, reverse=True) if words[: len(name.split())] == name.split())
    rest = words[len(name.split()) :]
    try:
        ALL[name].make_context(name, rest)
    except click.MissingParameter:
        # A text about the command, which does not say how it is called.
        assert not rest


@pytest.mark.parametrize("command", HINTED)
def test_a_command_that_a_hint_names_works_as_it_is_typed(ledger: CommandLine, command: str) -> None:
    fill(ledger)
    ran = ledger(*shlex.split(command)[1:])
    assert ran.code == 0, ran


def test_the_hint_of_a_revoke_leads_to_the_grant(ledger: CommandLine) -> None:
    fill(ledger)
    hint = ledger("revoke", "grn_none", code=9).err.splitlines()[1]
    assert hint == "hint: `permission-ledger approved` lists the grants in force"
    (row,) = ledger("approved", "--json", code=0).rows
    ledger("revoke", row["grant_id"], code=0)
    assert ledger("approved", "--json", code=0).rows == []


def test_a_wrong_password_says_where_to_put_the_right_one(start_server: StartServer) -> None:
    server = start_server()
    with redis.Redis.from_url(server.url) as admin:
        admin.config_set("requirepass", "hush")
    for url, cause in (
        (f"unix://{server.socket}", "the server wants a password; put it into the URL"),
        (f"unix://:wrong@{server.socket}", "the server does not take this user name or password"),
    ):
        told = CommandLine(url)("sessions", code=12).err
        assert f"error: {cause}" in told
        assert "hint: correct USER:PASSWORD in --url or PERMISSION_LEDGER_URL" in told
        assert "doctor" not in told
        assert "wrong@" not in told


def test_a_port_in_use_names_who_uses_it_and_the_way_out(ledger: CommandLine) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        user = listener_on(port)
        assert user is not None
        told = ledger("serve", "--no-tokens", "--listen", f"127.0.0.1:{port}", code=12).err
        assert f"cannot listen on `127.0.0.1:{port}`: Address already in use, by process {user.pid}" in told
        assert "hint: stop the program there, or choose another address: `--listen HOST:PORT`" in told
    assert listener_on(port) is None


def test_a_date_is_the_end_of_that_day(ledger: CommandLine) -> None:
    fill(ledger)
    row = ledger("show", "ses_1", "--json", code=0).row
    today, now = row["at"][:10], ledger("show", "ses_1", "--at", row["at"][:10], "--json", code=0).row
    assert (now["version"], now["at"]) == (row["version"], row["at"])
    assert [one["pattern"] for one in now["state"]["approved"]] == ["git *"]
    yesterday = (datetime.fromisoformat(today).replace(tzinfo=UTC) - timedelta(days=1)).date().isoformat()
    error = ledger("show", "ses_1", "--at", yesterday, "--json", code=9).error
    first = ledger("log", "ses_1", "--json", code=0).rows[0]["at"]
    assert error["error"] == f"session `ses_1` began at {first}, after `{yesterday}`"
    assert error["began_at"] == first
    assert ledger("show", "ses_1", "--at", first, "--json", code=0).row["version"] >= 1


def test_an_unknown_session_is_unknown_at_any_time(ledger: CommandLine, tmp_path: Path) -> None:
    error = ledger("show", "ses_none", "--at", "2026-11-22", "--json", code=9).error
    assert error["error"] == "there is no session `ses_none` at `2026-11-22`"
