"""Rules from files: the accepted forms, and refusals with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.limits import POLICY_BYTES
from ledger.policy import (
    Call,
    Layer,
    PolicyError,
    PolicySource,
    Rule,
    RuleRef,
    Verdict,
    compile_policy,
    load_rules,
)
from ledger.policy.jsonc import Document, JsonSyntaxError, TextSpan, parse

COMMENTED = """\
// what our agents may do
{
  "provider": {"some": {"apiKey": "sk-secret"}},
  "permission": {
    "*": "ask", /* everything
                   else */
    "bash": {
      "git *": "allow",
      "rm *": "deny", // never
    },
  },
  "agent": {"plan": {"prompt": "…", "permission": {"edit": "deny"}}},
}
"""


def write(folder: Path, text: str | bytes, name: str = "rules.json") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def refusal(file: str) -> str:
    with pytest.raises(PolicyError) as caught:
        load_rules(file)
    assert caught.value.data["file"] == file
    return caught.value.text.replace(file, "FILE")


def test_a_commented_configuration_is_one_layer_without_what_does_not_concern_permissions(tmp_path: Path) -> None:
    file = write(tmp_path, COMMENTED, "opencode.jsonc")
    assert load_rules(file, name="project") == Layer(
        "project",
        config={
            "permission": {"*": "ask", "bash": {"git *": "allow", "rm *": "deny"}},
            "agent": {"plan": {"permission": {"edit": "deny"}}},
        },
        file=file,
        lines={
            "/permission": 4,
            "/permission/*": 5,
            "/permission/bash": 7,
            "/permission/bash/git *": 8,
            "/permission/bash/rm *": 9,
            "/agent/plan/permission": 12,
            "/agent/plan/permission/edit": 12,
        },
    )


def test_a_verdict_names_the_file_and_the_line_of_its_rule(tmp_path: Path) -> None:
    file = write(tmp_path, COMMENTED, "opencode.jsonc")
    policy = compile_policy(PolicySource(layers=(load_rules(file, name="project"),), options={"agent": "plan"}))
    assert policy.evaluate(Call("bash", ("rm x",))).rules == (RuleRef("bash rm * deny", "project", file, 9),)
    assert policy.evaluate(Call("edit", ("x",))).rules == (RuleRef("edit * deny", "project", file, 12),)


def test_a_list_of_rules_is_one_layer_with_the_line_of_each(tmp_path: Path) -> None:
    text = '[\n  {"permission": "bash", "pattern": "*", "action": "ask"},\n\n  {"permission": "bash",\n'
    file = write(tmp_path, text + '   "pattern": "ls", "action": "allow"}\n]\n')
    assert load_rules(file).rules == (
        Rule("bash", "*", Verdict.ASK, "rules", file, 2),
        Rule("bash", "ls", Verdict.ALLOW, "rules", file, 4),
    )


def test_an_empty_list_and_an_empty_permission_are_written_wishes_and_taken(tmp_path: Path) -> None:
    assert load_rules(write(tmp_path, "[]")).rules == ()
    assert load_rules(write(tmp_path, '{"permission": {}}')).config == {"permission": {}}


def test_a_byte_order_mark_is_stepped_over(tmp_path: Path) -> None:
    assert load_rules(write(tmp_path, b'\xef\xbb\xbf{"permission": "ask"}')).config == {"permission": "ask"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`FILE` line 1: expected a value, found the end of the file"),
        ("{", "`FILE` line 1: expected a name in double quotes, found the end of the file"),
        ("{}", "`FILE` has neither `permission` nor `tools`, so it sets no rule"),
        ('{"permissions": {"bash": "deny"}}', "`FILE` has neither `permission` nor `tools`, so it sets no rule"),
        ("3", "`FILE` must hold an object with `permission`, or a list of rules"),
        ('"allow"', "`FILE` must hold an object with `permission`, or a list of rules"),
        ("\n[1]", "`FILE` line 2: rule 1 must be an object with permission, pattern and action"),
        (
            '{"permission":\n{"bash":\n{"rm *": "denny"}}}',
            "`FILE` line 3: the action of `bash` for `rm *` must be `allow`, `ask` or `deny`, not `denny`",
        ),
        (
            '{"permission": "ask",\n"agent": {"plan": {"permission":\n{"edit": 1}}}}',
            "`FILE` line 3: the action of `edit` must be `allow`, `ask` or `deny`, not `1`",
        ),
        ('{"permission":\n {"bash": "deny",\n "bash": "allow"}}', "`FILE` line 3: `bash` is given twice; keep one of them"),
        ('{"permission": "ask"}\n// why', "`FILE` line 2: comments are allowed in .jsonc files only"),
        ('{"permission": "ask",\n}', "`FILE` line 2: a comma after the last member is allowed in .jsonc files only"),
        ("[\n1,]", "`FILE` line 2: a comma after the last member is allowed in .jsonc files only"),
        ("[\n1 2]", "`FILE` line 2: expected `,` or `]`, found `2`"),
        ("[]\n[]", "`FILE` line 2: expected the end of the file, found `[`"),
        ("{'permission': 1}", "`FILE` line 1: expected a name in double quotes, found `'permission'`"),
        ('{"permission" "ask"}', '`FILE` line 1: expected `:`, found `"ask"`'),
        ('{"permission": "a', '`FILE` line 1: `"a` cannot be read'),
        ('["a\tb"]', '`FILE` line 1: `"a\\tb"]` cannot be read'),
        ('["\\x"]', '`FILE` line 1: expected a JSON value, found `"\\x"`'),
        ("[NaN]", "`FILE` line 1: expected a JSON value, found `NaN`"),
        ("[tru]", "`FILE` line 1: expected a JSON value, found `tru`"),
        ("[" * 100, "`FILE` line 1: values are nested deeper than 64 levels"),
        (b'{\n"permission": "\xff"}', "`FILE` line 2: the file is not UTF-8"),
        (b" " * (POLICY_BYTES + 1), f"`FILE` is larger than {POLICY_BYTES} bytes"),
    ],
    ids=lambda value: repr(value[:40]),
)  # fmt: skip
def test_a_file_that_is_no_policy_is_refused_with_its_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    file = write(tmp_path, text, "r.json")
    # A short name keeps the file's own text whole in the error.
    assert refusal(file).replace(file[:60] + "…", "FILE") == message


def test_a_file_that_cannot_be_opened_is_an_error_and_not_an_empty_policy(tmp_path: Path) -> None:
    missing, folder = str(tmp_path / "m"), str(tmp_path)
    with pytest.raises(PolicyError, match="cannot be read: no such file or directory"):
        load_rules(missing)
    with pytest.raises(PolicyError, match="cannot be read: is a directory"):
        load_rules(folder)
    with pytest.raises(PolicyError, match=r"cannot be read: .*null"):
        load_rules("a\0b")


def test_comments_and_slashes_inside_strings_are_text() -> None:
    text = '["// no", "/* no */", "a/b" /* yes */ , 1 // yes\n, ]'
    assert parse(text, comments=True).value == ["// no", "/* no */", "a/b", 1]


def test_a_comment_that_never_ends_is_refused() -> None:
    with pytest.raises(JsonSyntaxError, match="`/\\* x` cannot be read"):
        parse("1 /* x", comments=True)


def test_a_pointer_escapes_slashes_and_tildes() -> None:
    assert parse('{"a/b": {\n"~": 1}}', comments=False) == Document(
        {"a/b": {"~": 1}},
        {"": 1, "/a~1b": 1, "/a~1b/~0": 2},
        {"": TextSpan(0, 0, 18), "/a~1b": TextSpan(1, 8, 17), "/a~1b/~0": TextSpan(10, 15, 16)},
    )


@given(text=st.text(alphabet='{}[]",:/*\\ \n1ae-.', max_size=30), comments=st.booleans())
def test_any_text_is_read_or_refused_with_a_line_of_it(text: str, comments: bool) -> None:
    try:
        last = max(parse(text, comments=comments).lines.values())
    except JsonSyntaxError as problem:
        last = problem.line
    assert 1 <= last <= text.count("\n") + 1
