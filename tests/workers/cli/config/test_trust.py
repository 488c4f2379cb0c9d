"""A project's file counts only with exactly the content that the person trusted."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable

import pytest

from tests.support.command_line import Ran
from tests.workers.cli.config.person import Person

LOOSE = 'attended = "1s"\n[bridge.claude]\non-unreachable = "agent"\n[serve]\nno-tokens = true\n'
STRICT = 'rules = ["strict.json"]\n[bridge.claude]\nrules = "strict.json"\n'


def bridge_claude(person: Person) -> Ran:
    """Start the bridge around `true`; without a gateway it says what it would do with calls."""
    return person("bridge", "claude", "--grace", "0", "--", "true")


def test_an_untrusted_file_changes_nothing_and_is_told_once_with_the_command(person: Person) -> None:
    person.write(LOOSE)
    assert person.shown("bridge", "claude")["on-unreachable"] == ("deny", "default")
    assert person.shown("serve")["no-tokens"] == (False, "default")
    ran = person("policy", "shell", "ls", code=0)
    assert ran.err.splitlines() == [
        f"warning: `{person.file}` is not trusted, so it is ignored",
        f"hint: read it, then: permission-ledger config trust {person.file}",
    ]
    assert json.loads(person("policy", "shell", "ls", "--json", code=0).err)["warning"].endswith("so it is ignored")


def test_an_untrusted_file_does_not_loosen_a_bridge(person: Person) -> None:
    person.write(LOOSE)
    said = bridge_claude(person).err
    assert "calls are denied" in said
    assert "left to the agent" not in said


@pytest.mark.parametrize(
    "content",
    [b"a = " + b"9" * 5000, b"a = " + b"[" * 20_000, b"\xff", b"a = 1\0", b"a." * 9000 + b"b = 1", b"#" * 70_000],
)
def test_a_file_that_an_agent_wrote_stops_no_command(person: Person, content: bytes) -> None:
    person.file.write_bytes(content)
    assert "so it is ignored" in person("policy", "shell", "ls", code=0).err


def test_a_trusted_file_is_used_in_its_folder_and_below(person: Person) -> None:
    person.write(LOOSE)
    person.trust()
    below = person.project / "a" / "b"
    below.mkdir(parents=True)
    rows = person("config", "show", "--json", "bridge", "claude", folder=below).rows
    assert {row["name"]: row["value"] for row in rows}["on-unreachable"] == "agent"
    assert "left to the agent's own prompt" in bridge_claude(person).err


def edit(person: Person) -> None:
    person.write("# no rules\n")


def remove(person: Person) -> None:
    person.file.unlink()


def edit_named(person: Person) -> None:
    (person.project / "strict.json").write_text('{"permissions": {"allow": ["Bash"]}}')


def remove_named(person: Person) -> None:
    (person.project / "strict.json").unlink()


def make_unreadable(person: Person) -> None:
    person.file.write_bytes(b"\xff")


@pytest.mark.parametrize("change", [edit, remove, edit_named, remove_named, make_unreadable])
def test_a_bridge_does_not_start_without_the_rules_of_a_file_that_was_trusted(
    person: Person, change: Callable[[Person], None]
) -> None:
    (person.project / "strict.json").write_text('{"permissions": {"deny": ["Bash"]}}')
    person.write(STRICT)
    person.trust()
    assert person.shown("bridge", "claude")["rules"][0] == f"{person.project}/strict.json"
    change(person)
    for words in (["bridge", "claude", "--", "true"], ["up"], ["serve"], ["ask", "s", "bash", "ls"]):
        ran = person(*words, code=12)
        assert f"so `{' '.join(words[: 2 if words[0] == 'bridge' else 1])}` does not start" in ran.err
    person("policy", "shell", "ls", code=0)
    if change is remove:
        assert "permission-ledger config untrust" in ran.err
        person("config", "untrust", code=0)
        assert person("policy", "shell", "ls", code=0).err == ""


def test_a_nearer_file_that_is_not_trusted_does_not_hide_the_trusted_one(person: Person) -> None:
    (person.project / "strict.json").write_text('{"permissions": {"deny": ["Bash"]}}')
    person.write(STRICT)
    person.trust()
    below = person.project / "sub"
    below.mkdir()
    (below / "permission-ledger.toml").write_text("[bridge.claude]\nrules = 'mine.json'\n")
    ran = person("config", "show", "--json", "bridge", "claude", folder=below)
    assert {row["name"]: row["value"] for row in ran.rows}["rules"] == f"{person.project}/strict.json"
    assert "is not trusted" in ran.err


def test_trust_is_given_after_the_content_was_shown_and_a_yes(person: Person) -> None:
    person.write('attended = "1s"\nproject_note = 1\n')
    assert "is no member" in person("config", "trust", "--yes", code=12).err
    person.write('attended = "1s"\n')
    refused = person("config", "trust")
    assert refused.code != 0
    assert '  attended = "1s"' in refused.err.splitlines()
    assert person.shown()["attended"] == (None, "default")


def test_the_list_of_trusted_files_is_private_and_names_path_and_digest(person: Person) -> None:
    person.write('attended = "1s"\n')
    row = person("config", "trust", "--yes", "--json", code=0).row
    trusted = person.settings / "trusted.json"
    assert stat.S_IMODE(trusted.stat().st_mode) == 0o600
    assert json.loads(trusted.read_text())["files"] == {str(person.file): {"sha256": row["sha256"], "named": {}}}
    assert person("config", "trust", code=0).out == f"{person.file}: already trusted\n"


def test_a_list_that_others_may_write_trusts_nothing(person: Person) -> None:
    person.write(LOOSE)
    person.trust()
    (person.settings / "trusted.json").chmod(0o622)
    assert "others may write it" in bridge_claude(person).err
    assert person("policy", "shell", "ls").code == 12
    (person.settings / "trusted.json").chmod(0o600)
    person.settings.chmod(0o777)
    assert person("config", "trust", "--yes").code == 12


def test_a_list_inside_the_project_is_refused(person: Person) -> None:
    person.write(LOOSE)
    ran = person("config", "trust", "--yes", code=12, XDG_CONFIG_HOME=str(person.project / ".config"))
    assert "is inside the project" in ran.err


def test_a_project_file_holds_no_password(person: Person) -> None:
    for line in ('url = "redis://ann:s3cret@db:6379"', '[serve]\npublic-url = "https://a:s3cret@x"'):
        person.write(f"{line}\n")
        ran = person("config", "trust", "--yes", code=12)
        assert "holds a password" in ran.err
        assert "s3cret" not in ran.err.replace(line, "")


def test_the_environments_token_is_not_sent_to_another_machine_that_a_project_names(person: Person) -> None:
    person.write('gateway = "https://permits.example.com"\n')
    person.trust()
    ran = person("run", "ses_1", "--", "true", code=12, PERMISSION_LEDGER_TOKEN="pl_x")
    assert "is another machine, and PERMISSION_LEDGER_TOKEN is set" in ran.err


@pytest.mark.parametrize("trusted", [False, True])
def test_a_hook_reads_no_file_and_denies_without_a_gateway(person: Person, trusted: bool) -> None:
    person.write('gateway = "http://127.0.0.1:1"\n[bridge.claude]\non-unreachable = "agent"\n')
    if trusted:
        person.trust()
        person.write("changed = 1\n")
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    ran = person.fed("hook", "claude", "--grace", "0", text=json.dumps({**event, "cwd": str(person.project)}))
    assert ran.code in (0, 2)
    assert '"allow"' not in ran.out
    assert ran.code == 2 or '"deny"' in ran.out
    assert str(person.file) not in ran.err
