"""The sources of a value, the first one that has it counts: option, environment, the project's trusted file, the user's file, default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.servers import RealServer
from tests.workers.cli.config.person import Person


def test_the_order_is_option_environment_project_user_default(person: Person) -> None:
    seen = [person.shown("serve")["link-answers"]]
    person.own.write_text('[serve]\nlink-answers = "session"\n')
    seen.append(person.shown("serve")["link-answers"])
    person.write('# ours\n\n[serve]\nlink-answers = "always"\n')
    person.trust()
    seen.append(person.shown("serve")["link-answers"])
    variable = {"PERMISSION_LEDGER_LINK_ANSWERS": "session"}
    seen.append(person.shown("serve", **variable)["link-answers"])
    seen.append(person.shown("serve", "--link-answers", "once", **variable)["link-answers"])
    assert seen == [
        ("once", "default"),
        ("session", f"{person.own}:2"),
        ("always", f"{person.file}:4"),
        ("session", "$PERMISSION_LEDGER_LINK_ANSWERS"),
        ("once", "option"),
    ]


def test_a_commands_table_comes_before_the_common_member_of_the_same_file(person: Person) -> None:
    person.own.write_text('attended = "20s"\n[up]\nattended = "40s"\n')
    assert person.shown("up")["attended"] == ("40s", f"{person.own}:3")
    assert person.shown("ask")["attended"] == ("20s", f"{person.own}:1")


def test_a_path_is_relative_to_the_folder_of_its_file(person: Person) -> None:
    person.write('rules = ["opencode.json", "claude=rules/claude.json"]\n')
    person.trust()
    below = person.project / "sub"
    below.mkdir()
    (row,) = [row for row in person("config", "show", "--json", "up", folder=below).rows if row["name"] == "rules"]
    assert row["value"] == [f"{person.project}/opencode.json", f"claude={person.project}/rules/claude.json"]


def test_the_url_of_a_file_is_used_and_the_environment_comes_before_it(person: Person, server: RealServer) -> None:
    person.own.write_text('url = "redis://127.0.0.1:1"\n')
    person("sessions", code=8)
    person("sessions", code=0, PERMISSION_LEDGER_URL=server.url)
    person("sessions", "--url", server.url, code=0)
    person.own.write_text(f'url = "{server.url}"\n')
    person("sessions", code=0)


def test_a_named_data_folder_comes_before_the_url_of_a_file(person: Person, tmp_path: Path) -> None:
    person.own.write_text('url = "redis://127.0.0.1:1"\n')
    home = {"PERMISSION_LEDGER_HOME": str(tmp_path / "data")}
    assert person.shown(**home)["url"] == (str(tmp_path / "data"), "$PERMISSION_LEDGER_HOME")
    assert person.shown("sessions", **home)["url"][1] == "$PERMISSION_LEDGER_HOME"


def test_the_demo_never_plays_on_the_ledger_of_a_file(person: Person) -> None:
    person.own.write_text('url = "redis://127.0.0.1:1"\n')
    assert person.shown("demo")["url"] == (None, "default")


def test_url_of_the_opencode_bridge_is_another_servers(person: Person) -> None:
    person.own.write_text('url = "redis://127.0.0.1:1"\n[bridge.opencode]\nurl = "http://127.0.0.1:4096"\n')
    assert person.shown("bridge", "opencode")["url"] == ("http://127.0.0.1:4096", f"{person.own}:3")


def test_the_gateway_of_a_file_is_the_address_that_inbox_prints(person: Person, server: RealServer) -> None:
    person.own.write_text(f'url = "{server.url}"\ngateway = "http://127.0.0.1:8123"\n')
    assert person("inbox", code=0).out.startswith("http://127.0.0.1:8123/sign-in?code=")
    other = person("inbox", code=0, PERMISSION_LEDGER_GATEWAY="http://127.0.0.1:8124")
    assert other.out.startswith("http://127.0.0.1:8124/")
    wrong = person.own.read_text().replace("http://127.0.0.1:8123", "ftp://x")
    person.own.write_text(wrong)
    assert f"{person.own}:2: `gateway`: " in person("inbox", code=12).err


def test_passwords_and_tokens_are_masked(person: Person) -> None:
    person.own.write_text('url = "redis://ann:s3cret@127.0.0.1:1"\n')
    ran = person("config", "show", "--json", code=0, PERMISSION_LEDGER_TOKEN="pl_s3cret")
    assert "s3cret" not in ran.out + ran.err
    assert {row["name"]: row["value"] for row in ran.rows}["token"] == "***"
    assert "redis://ann:***@127.0.0.1:1" in ran.out
    assert "s3cret" not in person("config", "show", "sessions", code=0).out


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('atended = "1s"\n', ":1: `atended` is no member", "did you mean `attended`?"),
        ('\n[up]\nlistn = "x"\n', ":3: `listn` is no member", "did you mean `listen`?"),
        ("[upp]\n", ":1: `upp` is no table: no command with settings has this name", "did you mean `up`?"),
        ("[bridge.claud]\n", ":1: `bridge.claud` is no table: no command has this name", None),
        ("[serve]\nno-tokens = 'yes'\n", ":2: `no-tokens` must be true or false", None),
        ("[serve]\nlisten = 1.5\n", ":2: `listen` must be a list", None),
        ("[serve]\nlink-answers = 'forever'\n", ":2: `link-answers`: ", None),
        ("[ask]\nid = 'x'\n", ":2: `id` says what one call does; give --id on the command line", None),
        ('token = "x"\n', ":1: `token` is no member", "set PERMISSION_LEDGER_TOKEN in the environment"),
        ("attended = 60\n", ":1: `attended` must be text", None),
        ("attended = \n", " is not TOML: ", None),
        ("[hook.claude]\nrules = 'x'\n", ":2: `rules` is no member", None),
    ],
)
def test_a_wrong_member_is_an_error_with_file_line_and_nearest_name(
    person: Person, text: str, said: str, hint: str | None
) -> None:
    person.own.write_text(text)
    told = json.loads(person("config", "show", "--json", code=12).err)
    assert told["code"] == "CONFIG"
    assert f"{person.own}{said}" in told["error"] or f"`{person.own}`{said}" in told["error"]
    assert hint is None or told["hint"] == hint


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = " + b"[" * 9000, b"#" * (64 * 1024 + 1)])
def test_a_file_of_any_bytes_ends_in_one_clear_error(person: Person, content: bytes) -> None:
    person.own.write_bytes(content)
    ran = person("sessions", "--json", code=12)
    assert ran.error["code"] == "CONFIG"
    assert str(person.own) in ran.error["error"]


def test_a_users_file_that_others_may_write_is_refused(person: Person) -> None:
    person.own.write_text('attended = "1s"\n')
    person.own.chmod(0o666)
    assert "others may write it" in person("sessions", "--json", code=12).error["error"]


def test_no_file_is_read_where_the_variable_says_so(person: Person) -> None:
    person.own.write_text("nonsense\n")
    person("policy", "shell", "ls", code=0, PERMISSION_LEDGER_CONFIG="none")
    assert person("policy", "shell", "ls").code == 12
