"""Writes of "remember": only at the end of one list, atomically, and nothing twice."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import PolicyError, Verdict
from ledger.policy.codelia import load_config, load_layers, remembered, write_remembered
from ledger.policy.codelia.rule import granted_rule
from tests.policy.codelia.codelia_calls import commands, policy, verdict

RULES = commands("git status", "rg")
ONE = '{"tool": "bash", "command": "rg"}'


def test_an_empty_text_becomes_a_whole_configuration() -> None:
    assert json.loads(remembered("", RULES)) == {"version": 1, "permissions": {"allow": RULES}}
    assert remembered(" \n", RULES) == remembered("", RULES)


TEXTS = [
    ("{}", '{\n  "permissions": {"allow": [' + ONE + "]}\n}"),
    ('{"version": 1}', '{"version": 1, "permissions": {"allow": [' + ONE + "]}}"),
    ('{"permissions": {}}', '{"permissions": {\n  "allow": [' + ONE + "]\n}}"),
    ('{"permissions": {"allow": []}}', '{"permissions": {"allow": [\n  ' + ONE + "\n]}}"),
    (
        '{\n\t"x": 1.50,\n\t"permissions": {\n\t\t"deny": []\n\t}\n}\n',
        '{\n\t"x": 1.50,\n\t"permissions": {\n\t\t"deny": [],\n\t\t"allow": [' + ONE + "]\n\t}\n}\n",
    ),
    (
        '{"permissions": {"allow": [\n    {"tool": "read"}\n  ], "deny": [{"tool": "x"}]}}',
        '{"permissions": {"allow": [\n    {"tool": "read"},\n    ' + ONE + '\n  ], "deny": [{"tool": "x"}]}}',
    ),
    ('\ufeff{"permissions":{"allow":[{"tool":"a"}]}}', '\ufeff{"permissions":{"allow":[{"tool":"a"}, ' + ONE + "]}}"),
]


@pytest.mark.parametrize(("before", "after"), TEXTS, ids=lambda text: ascii(text)[:30])
def test_a_rule_is_added_and_everything_else_stays_as_it_is_written(before: str, after: str) -> None:
    assert remembered(before, commands("rg")) == after


@pytest.mark.parametrize(("before", "after"), TEXTS, ids=lambda text: ascii(text)[:30])
def test_what_stands_there_is_not_added_again(before: str, after: str) -> None:
    assert remembered(after, commands("rg", "rg")) == after
    assert remembered(after, [{"tool": "shell", "command": "rg"}]) == after


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"a": 1, "a": 2}', '{"version": 2}', '{"permissions": {"allow": 1}}', "// x\n{}"]
)
def test_a_text_that_is_no_configuration_is_refused_rather_than_replaced(text: str) -> None:
    with pytest.raises(PolicyError):
        remembered(text, RULES)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)
heads = st.sampled_from(["rg", "ls", "git status", "a"])
members = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just(1),
        "model": values,
        "permissions": st.fixed_dictionaries(
            {},
            optional={
                "deny": st.lists(heads.map(lambda head: commands(head)[0]), max_size=2),
                "allow": st.lists(heads.map(lambda head: commands(head)[0]), max_size=3),
            },
        ),
    },
)


@given(config=members, indent=st.sampled_from([None, 0, 2, "\t"]), wanted=st.lists(heads, max_size=3))
def test_adding_keeps_every_member_and_rule_in_any_layout(config: Any, indent: Any, wanted: list[str]) -> None:
    text = json.dumps(config, indent=indent)
    after = json.loads(remembered(text, commands(*wanted)))
    standing = config.get("permissions", {}).get("allow", [])
    new = [rule for rule in commands(*dict.fromkeys(wanted)) if rule not in standing]
    if new:
        config = {**config, "permissions": {**config.get("permissions", {}), "allow": [*standing, *new]}}
    assert after == config


def test_a_remembered_rule_is_in_force_after_loading(tmp_path: Path) -> None:
    file = tmp_path / ".codelia" / "config.json"
    assert verdict("rg x", policy()) is Verdict.ASK
    assert write_remembered(file, RULES) is True
    assert write_remembered(file, RULES) is False
    (layer,) = load_layers(tmp_path, {})
    assert (layer.name, layer.file, layer.lines["/permissions/allow/1"]) == ("project", str(file), 9)
    assert layer.config == {"version": 1, "permissions": {"allow": RULES}}


def test_the_mode_of_the_file_and_a_link_to_it_are_kept(tmp_path: Path) -> None:
    file, link = tmp_path / "real.json", tmp_path / "config.json"
    file.write_text("{}")
    file.chmod(0o640)
    link.symlink_to(file)
    write_remembered(link, RULES)
    assert (link.is_symlink(), file.stat().st_mode & 0o777) == (True, 0o640)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["config.json", "real.json"]


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff{}"])
def test_a_file_that_cannot_be_added_to_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(PolicyError) as refused:
        write_remembered(file, RULES)
    assert refused.value.data["file"] == str(file)
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (content, [file])


def test_a_folder_in_the_place_of_the_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(PolicyError, match=r"could not be written .*; the answer holds for this session only"):
        write_remembered(tmp_path / "config.json", RULES)


def test_writers_at_once_lose_no_rule(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    writers = [
        threading.Thread(target=write_remembered, args=(file, commands(*(f"c{n}-{i}" for i in range(3)))))
        for n in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(json.loads(file.read_text())["permissions"]["allow"]) == 24


def test_the_global_file_is_found_as_the_program_finds_it(tmp_path: Path) -> None:
    home, project, xdg = tmp_path / "home", tmp_path / "project", tmp_path / "xdg"
    for number, folder in enumerate(
        (home / ".codelia", project / ".codelia", xdg / "codelia", home / ".config/codelia")
    ):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"model": {}, "permissions": {"allow": commands(f"c{number}")}}))

    def found(**environ: str) -> list[tuple[str, str]]:
        layers = load_layers(project, {"HOME": str(home), **environ})
        return [(layer.name, layer.config["permissions"]["allow"][0]["command"]) for layer in layers]

    own = ("project", "c1")
    assert found() == [("global", "c0"), own]
    assert found(CODELIA_LAYOUT="xdg", XDG_CONFIG_HOME=str(xdg)) == [("global", "c2"), own]
    assert found(CODELIA_LAYOUT="XDG") == [("global", "c3"), own]
    assert found(CODELIA_CONFIG_PATH=str(xdg / "codelia/config.json")) == [("global", "c2"), own]
    assert load_layers(tmp_path, {}) == ()
    with pytest.raises(PolicyError, match="cannot be read"):
        found(CODELIA_CONFIG_PATH=str(tmp_path / "missing.json"))


def test_only_what_concerns_permissions_leaves_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{\n "version": 1,\n "model": {"key": "secret"},\n "permissions": {"deny": [{"tool": "x"}]}\n}')
    layer = load_config(file)
    assert layer.config == {"version": 1, "permissions": {"deny": [{"tool": "x"}]}}
    assert set(layer.lines) == {
        "/version", "/permissions", "/permissions/deny", "/permissions/deny/0", "/permissions/deny/0/tool",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{\n\n]", "line 3: expected a name in double quotes"),
        (b'{"permissions":\n {"allow": [\n {"tool": "bash", "command": ""}]}}', "line 3: `command` must be a string"),
        (b"{\n\xff}", "line 2: the file is not UTF-8"),
        (b"// x\n{}", "line 1: comments are allowed in .jsonc files only"),
        (b" " * 20_000_000, "is larger than"),
    ],
    ids=["syntax", "rule", "bytes", "comment", "size"],
)
def test_a_file_that_cannot_be_read_is_an_error_with_its_line(tmp_path: Path, content: bytes, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(PolicyError) as refused:
        load_config(file)
    assert text in str(refused.value)


def test_the_faithful_profile_may_load_what_the_hardened_one_refuses(tmp_path: Path) -> None:
    file = tmp_path / ".codelia" / "config.json"
    file.parent.mkdir()
    file.write_text('{"permissions": {"allow": [{"tool": "bash", "command": ""}]}}')
    assert load_config(file, strict=False).config["permissions"]["allow"] == [{"tool": "bash", "command": ""}]
    assert [layer.file for layer in load_layers(tmp_path, {}, strict=False)] == [str(file)]
    with pytest.raises(PolicyError, match="`command` must be a string that is not empty"):
        load_layers(tmp_path, {})


def test_a_grant_that_nests_without_end_lifts_nothing() -> None:
    assert granted_rule("bash", "[" * 20_000) is None
