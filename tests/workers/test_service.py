"""The service of a user: unit and agent with paths of any kind, no secret in them, and `up --service` to its end."""

from __future__ import annotations

import os
import plistlib
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ledger.core.errors import SetupError
from ledger.stores.embedded import stop
from tests.support.command_line import CommandLine
from tests.support.processes import free_port
from tests.support.service_manager import put_manager
from workers.runtime import background, service
from workers.runtime.place import LedgerPlace

ODD: Final = '/srv/a "b" $HOME 100% \\ c/python'
WORDS: Final = [ODD, "-m", "permission_ledger", "up", "--rules", "opencode=/srv/50% $x/rules.json"]


def test_a_unit_has_every_word_as_it_is() -> None:
    text = service.unit(WORDS, {"PATH": "/bin:/opt/50%/bin", "A": 'q"b'}, Path("/srv/100%/up.log"))
    lines = text.splitlines()
    (start,) = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
    program, *words = shlex.split(start.replace("%%", "%"))
    assert [program, *(word.replace("$$", "$") for word in words)] == WORDS
    assert start.startswith('"/srv/a \\"b\\" $HOME 100%% \\\\ c/python" "-m"')
    assert start.endswith('"opencode=/srv/50%% $$x/rules.json"')
    assert 'Environment="PATH=/bin:/opt/50%%/bin"' in lines
    assert 'Environment="A=q\\"b"' in lines
    assert "StandardError=append:/srv/100%%/up.log" in lines


@pytest.mark.parametrize("word", ["a\nExecStartPre=/bin/evil", "a\x00b", "a\x1bb"])
def test_a_line_is_not_smuggled_into_a_unit(word: str) -> None:
    with pytest.raises(SetupError, match="cannot stand in a unit file"):
        service.unit(["/bin/python", word], {}, Path("/srv/up.log"))


def test_an_agent_of_launchd_has_every_word_as_it_is() -> None:
    found = plistlib.loads(service.agent([*WORDS, "<&>"], {"A": "<b>"}, Path("/srv/<log>")).encode())
    assert found["ProgramArguments"] == [*WORDS, "<&>"]
    assert (found["EnvironmentVariables"], found["StandardErrorPath"]) == ({"A": "<b>"}, "/srv/<log>")
    assert (found["RunAtLoad"], found["KeepAlive"]) == (True, {"SuccessfulExit": False})


@pytest.fixture
def person(tmp_path: Path) -> Iterator[CommandLine]:
    """Somebody whose service manager is a stand-in for systemd."""
    (tmp_path / "bin").mkdir()
    put_manager(tmp_path / "bin")
    variables = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PERMISSION_LEDGER_URL": "",
        "XDG_CONFIG_HOME": "",
        "XDG_DATA_HOME": "",
    }
    yield CommandLine("", variables)
    stop(tmp_path / ".local/share/permission-ledger")


@pytest.mark.slow
@pytest.mark.process
def test_a_service_is_installed_started_shown_ended_and_removed(person: CommandLine, tmp_path: Path) -> None:
    port = free_port()
    made = person("up", "--service", "--listen", f"127.0.0.1:{port}", "--unattended", "8h", code=0)
    unit = tmp_path / ".config/systemd/user/permission-ledger.service"
    assert made.out.splitlines()[:2] == [
        "permission-ledger is up, as a service",
        f"  address  http://127.0.0.1:{port}",
    ]
    assert made.err.startswith(f"{unit}: written\n")
    assert "loginctl enable-linger" in made.err
    shown = person("status", code=0).out
    assert f"  service  {unit}\n" in shown
    assert person("up", "--detach", code=0).out.startswith("permission-ledger is up already, as a service\n")
    first = background.read_state(tmp_path / ".local/share/permission-ledger")
    person("up", "--service", "--listen", f"127.0.0.1:{port}", code=0)
    assert background.read_state(tmp_path / ".local/share/permission-ledger") != first, "with the options of now"
    assert "8h" not in unit.read_text()
    ended = person("down", "--service", code=0)
    assert ended.out == "permission-ledger is down\n"
    assert not unit.exists()
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line for line in asked if line.startswith("disable")] == ["disable --now permission-ledger.service"]


def test_no_secret_stands_in_a_unit(person: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, person.environment[name])
    monkeypatch.setenv("PERMISSION_LEDGER_TOKEN", "plt_secret")
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(tmp_path / "data"))
    path = service.write(LedgerPlace("redis://ledger:hush@db.internal", None), ["--listen", "none"])
    text = path.read_text()
    assert [secret for secret in ("hush", "plt_secret", "db.internal") if secret in text] == []
    file = tmp_path / "data" / "service-url"
    assert f'Environment="PERMISSION_LEDGER_URL_FILE={file}"' in text
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("redis://ledger:hush@db.internal\n", 0o600)


def test_without_a_manager_the_line_for_the_start_of_the_machine_is_printed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    run = CommandLine(
        "", {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), "PERMISSION_LEDGER_HOME": str(tmp_path / "a b")}
    )
    ran = run("up", "--service", "--listen", "none", PERMISSION_LEDGER_URL="", code=12)
    assert "error: no systemd of this user and no launchd was found" in ran.err
    assert "`@reboot` in `crontab -e`: env " in ran.err
    assert f"'PERMISSION_LEDGER_HOME={tmp_path}/a b'" in ran.err
    assert ran.err.rstrip().endswith(
        "up --detach --listen none --link-answers once --log-level warning --log-format text"
    )


@pytest.mark.slow
@pytest.mark.process
def test_a_ledger_in_the_background_goes_on_where_no_service_can_be_made(person: CommandLine, tmp_path: Path) -> None:
    person("up", "--detach", "--listen", "none", code=0)
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    person("up", "--service", "--listen", "none", code=12)
    assert person("status", "--json", code=0).row["started_by"] == "detach"
    person("down", code=0)
