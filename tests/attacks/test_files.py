"""Attacks with files where the ledger reads or writes: FIFOs, devices, folders, endless files, and links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from ledger.core.errors import LedgerError
from ledger.core.regular_files import private_file, read_regular
from ledger.policy.codelia.loader import write_remembered
from ledger.policy.dialects import dialect_named
from ledger.policy.errors import PolicyError
from ledger.stores.embedded.errors import EmbeddedServerError
from ledger.stores.embedded.folder import open_folder
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from workers.bridges import settings_file
from workers.bridges.askers import waiting_for
from workers.bridges.hooks.claude import Transcript
from workers.bridges.hooks.exchange import HookProcess
from workers.bridges.hooks.question import BroughtRules
from workers.bridges.options import read_rules
from workers.cli.verify import read_heads
from workers.gateway.announcement import read_address
from workers.notifier.settings import read_settings
from workers.transport.place import BridgeError


@pytest.fixture
def ledger(shared_server: RealServer) -> CommandLine:
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    return CommandLine(shared_server.url)


Make = Callable[[Path], None]
READERS: dict[str, Callable[[Path], object]] = {
    "rules of opencode": lambda path: dialect_named("opencode").load(path),
    "rules of claude": lambda path: dialect_named("claude").load(path),
    "rules of codelia": lambda path: dialect_named("codelia").load(path),
    "rules that are remembered": lambda path: write_remembered(path, [{"tool": "bash", "command": "ls"}]),
    "rules that a bridge brings": lambda path: read_rules(str(path), "claude"),
    "settings of an agent": settings_file.read_text,
    "settings of the notifier": read_settings,
    "heads": read_heads,
}


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a sparse file


@pytest.mark.slow
@pytest.mark.parametrize("make", [fifo, device, folder, terminal, huge])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_made_to_hang_or_to_fill_its_memory(tmp_path: Path, name: str, make: Make) -> None:
    path = tmp_path / "rules.json"
    make(path)
    with pytest.raises((LedgerError, PolicyError, BridgeError)):
        READERS[name](path)


@pytest.mark.parametrize("make", [fifo, device, folder, huge])
def test_small_files_of_the_data_folder_made_to_hang_a_hook(
    tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(tmp_path))
    for name in ("gateway.json", "askers/s/one", "rules.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        make(tmp_path / name)
    assert read_address(tmp_path) == {}
    assert waiting_for("s", "0" * 64) == []
    with pytest.raises(BridgeError):
        BroughtRules(str(tmp_path / "rules.json")).digest()
    make(tmp_path / "settings.json")
    assert settings_file.load(tmp_path / "settings.json") is None


@pytest.mark.parametrize("make", [fifo, device, folder])
def test_a_transcript_made_to_hang_a_hook(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "transcript.jsonl")
    watched = Transcript(str(tmp_path / "transcript.jsonl"), "Bash", {"command": "ls"}, HookProcess())
    assert watched.rejection("toolu_1") is None


def test_a_file_that_grows_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="it is larger than 10 bytes"):
        read_regular(path, 10)
    assert read_regular(path, 11) == b"x" * 11


def test_an_export_read_by_other_users(ledger: CommandLine, tmp_path: Path) -> None:
    ledger("ask", "ses_1", "bash", "ls", "--no-wait", code=7)
    for words in (("export", "--all", "--out", "a.jsonl"), ("verify", "--all", "--save", "heads.jsonl")):
        ledger(*words[:-1], tmp_path / words[-1], code=0)
        assert stat.S_IMODE((tmp_path / words[-1]).stat().st_mode) == 0o600


def test_an_import_from_a_fifo_says_what_to_do(ledger: CommandLine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    ran = ledger("import", tmp_path / "a.jsonl", code=12)
    assert "it is not a regular file" in ran.err


def test_a_link_laid_where_an_export_is_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / f"out.{os.uname().nodename}-{os.getpid()}.part").symlink_to(victim)
    with private_file(tmp_path / "out") as file:
        file.write(b"new")
    assert (victim.read_text(), (tmp_path / "out").read_text()) == ("kept", "new")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out", "victim"]


def test_an_export_that_breaks_off_leaves_the_file_before(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before")
    with pytest.raises(OSError, match="the disk is full"):
        _break_off(tmp_path / "out")
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"out": "before"}


def _break_off(path: Path) -> None:
    with private_file(path) as file:
        file.write(b"half")
        raise OSError("the disk is full")


def test_root_led_to_take_the_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    mine = os.geteuid()
    # Root may access every folder, so the check runs as root on a folder of another user.
    monkeypatch.setattr(os, "geteuid", lambda: 0 if mine else 4_000_000)
    with pytest.raises(EmbeddedServerError, match="belongs to another user; name one of your own"):
        open_folder(theirs)
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755


def test_being_led_over_a_link_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir(mode=0o700)
    link.symlink_to(real)
    assert open_folder(link).path == real
    if os.geteuid() == 0:
        os.lchown(link, 4_000_000, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    for path in (link, link / "data"):
        with pytest.raises(EmbeddedServerError, match=f"the link `{link}`, which belongs to another user"):
            open_folder(path)
    assert not (real / "data").exists()
