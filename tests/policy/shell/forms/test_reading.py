"""The normal form of a command: every spelling of one meaning gives the same one."""

from __future__ import annotations

import pytest

from ledger.policy.data_files import TableError
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.forms.nodes import NormalForm
from ledger.policy.shell.forms.reduction import form_by
from tests.policy.compiling import read_tables

TABLES = '''
[tool]
version = "1"
aliases = ["t"]
negatable = true
commands_abbreviated = true
globals = "anywhere"
plain = """
-v --verbose
--colour[=WHEN]
"""
folder = """
-C --directory=DIR
"""
[tool.commands.push]
aliases = ["publish"]
plain = """
-f --force
-m --message=TEXT
--mirror
"""
asks = """
--receive-pack --exec=PROGRAM
"""
operands = "name*"
means = { "--mirror" = "--force" }
operand_means = { "+" = "--force" }
[tool.commands.copy]
write = """
-t --target=DIR
"""
operands = "read* write"
[tool.commands.find]
digits = true
plain = """
-e --regexp=PATTERN
"""
operands = "text read*"
first_from = "-e"
[tool.commands.run]
interspersed = false
operands = "program"
[tool.commands.task]
dashes = "words"
operands = "task*"
assignment_asks = "SHELL"
[tool.commands.image.commands.push]
same = "push"
[pack]
old_style = true
plain = """
-c --create
-v --verbose
-L --length=N
"""
output = """
-f --file=ARCHIVE
"""
operands = "read*"
[gotool]
style = "go"
plain = """
-v
-run=PATTERN
"""
operands = "name*"
[editor]
language = "sed"
blank_first = true
operands = "code read*"
first_from = "-e"
plain = """
-n
"""
edits = """
-i[SUFFIX]
"""
code = """
-e=SCRIPT
"""
[say]
style = "echo"
operands = "text*"
interspersed = false
plain = """
-n
-e
"""
[apart]
glued = false
plain = """
-a
-P=PATTERN
"""
asks = """
-o=FILE
"""
[cloud]
asks = """
--endpoint=URL
"""
globals = "anywhere"
[cloud.commands.vm.commands."list-*"]
operands = "text*"
plain = """
--*[=VALUE]
"""
[shared]
[shared.groups.common]
plain = """
-a --all
-q --quiet
"""
asks = """
-x --exec=PROGRAM
"""
[shared.commands.one]
use = "common"
without = "-q"
plain = """
-a=N
"""
[loader]
globals = "anywhere"
code = "--with=NAME"
asks = "-p --profile[=NAME]"
harmless = { "--with" = "plain|none", "--profile" = "" }
[loader.commands.run]
operands = "task words*"
[dd]
style = "dd"
read = "if=FILE"
write = "of=FILE"
'''
NODES = {name: node for node in read_tables(TABLES) for name in (node.name, *node.aliases)}


def form(line: str) -> NormalForm:
    (command,) = analyse(line).commands[:1]
    return form_by(NODES[command.name or ""], command.words)


def said(line: str) -> tuple[tuple[str, ...], set[tuple[str, str | None]], list[str]]:
    found = form(line)
    assert not found.unclear, found.unclear
    options = {(one.name, one.value) for one in found.options}
    return found.path, options, [one.text for one in found.operands]


SAME = [
    ["tool push -f -v origin", "tool -v push --force origin", "t publish origin -vf", "tool pub --for origin --verb"],
    ["tool push -m x a", "tool push -mx a", "tool push --message=x a", "tool push a --mess x"],
    ["tool -C sub push a", "tool push a --directory=sub", "tool push -Csub a"],
    ["tool image push a", "tool push a"],
    ["pack cvLf 10 a b", "pack -cv -L 10 -f a b", "pack b --create --verbose --length 10 --file=a"],
    ["gotool -v -run=x p", "gotool --v --run x p"],
]


@pytest.mark.parametrize("lines", SAME, ids=lambda lines: lines[0])
def test_spellings_of_one_meaning_have_one_form(lines: list[str]) -> None:
    first, *others = map(said, lines)
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    "line",
    [
        "tool push --forced", "tool push -x", "tool --weird push", "tool nothing", "tool push --force=yes",
        "tool push -m", "tool push *", "tool push ''*", 'tool push "$X"', "tool copy -t", "tool find -x", "gotool -vx",
        "tool task X!=y", "tool task SHELL=/tmp/x", "tool task 'A=$(id)'", "tool -- push", "tool push -m a*",
    ],
)  # fmt: skip
def test_what_no_table_holds_is_not_understood(line: str) -> None:
    assert form(line).unclear


def test_an_operand_that_means_an_option_says_so() -> None:
    assert "--force" in form("tool push origin +main").names
    assert "--force" in form("tool push --mirror").names
    assert "--force" not in form("tool push origin main").names


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("tool copy a b c", ["read", "read", "write"]),
        ("tool find x a", ["text", "read"]),
        ("tool find -e x a", ["read"]),
        ("tool find -3 x", ["text"]),
        ("tool task build A=1 -- -x /etc", ["task", "task", "words", "words"]),
        ("tool push -- -x", ["name"]),
    ],
)
def test_each_operand_is_of_a_kind(line: str, kinds: list[str]) -> None:
    found = form(line)
    assert not found.unclear
    assert [one.kind.value for one in found.operands] == kinds


def test_a_runner_has_an_inner_command() -> None:
    found = form("tool run -v prog -x y")
    assert not found.unclear
    assert found.inner is not None
    assert [word.raw for word in found.inner.words] == ["prog", "-x", "y"]


def test_a_negated_flag_is_another_one() -> None:
    assert [one.name for one in form("tool push --no-force").options] == ["--no-force"]
    assert form("tool push --no-exec").unclear


def test_names_with_values_are_options_where_a_program_reads_them_so() -> None:
    assert [(one.name, one.value) for one in form("dd if=a of=b").options] == [("if", "a"), ("of", "b")]
    assert form("dd conv=x").unclear


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("editor s/a/b/ x", ["text", "read"]),
        ("editor 's/a/b/w x' y", ["code", "read"]),
        ("editor -i '' s/a/b/ x", ["text", "read"]),
        ("editor -i '' 'w x' y", ["code", "read"]),
        ("editor -e s/a/b/ x", ["read"]),
    ],
)
def test_a_script_that_only_prints_is_text(line: str, kinds: list[str]) -> None:
    assert [one.kind.value for one in form(line).operands] == kinds
    assert all(one.effect.value != "code" for one in form(line).options)


def test_an_option_with_a_script_that_writes_is_code() -> None:
    assert [one.effect.value for one in form("editor -e 'w x' y").options] == ["code"]


def test_values_follow_in_the_order_of_the_letters_where_none_is_glued() -> None:
    assert [(one.name, one.value) for one in form("apart -Pao x y").options] == [("-P", "x"), ("-a", None), ("-o", "y")]
    assert form("apart -P2").unclear


def test_a_pattern_stands_for_sub_commands_and_for_options_that_no_table_holds() -> None:
    found = form("cloud vm list-disks --size 5 --x=y")
    assert not found.unclear
    assert (found.path, [one.name for one in found.options]) == (("vm", "list-disks"), ["--*", "--*"])
    assert form("cloud vm delete-disks").unclear
    assert form("cloud vm list-disks -x").unclear
    assert form("cloud vm list-disks --endpoint x").options[0].effect.value == "asks"


def test_help_is_an_option_of_every_sub_command() -> None:
    assert not form("tool push --help").unclear
    assert form("tool push --help=x").unclear


def test_words_of_echo_are_no_options_but_its_own() -> None:
    assert [one.text for one in form("say -ne --- -x --n").operands] == ["---", "-x", "--n"]
    assert [one.name for one in form("say -ne x").options] == ["-n", "-e"]


def test_a_command_has_the_options_of_the_groups_that_it_uses_but_for_its_own_names() -> None:
    found = form("shared one -a 1 --all --quiet -x p")
    assert [(one.name, one.value) for one in found.options] == [
        ("-a", "1"), ("--all", None), ("--quiet", None), ("--exec", "p"),
    ]  # fmt: skip
    assert form("shared one -q").unclear


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("loader --with plain", "plain"),
        ("loader --with=plain", "plain"),
        ("loader --with plain,../evil", "code"),
        ("loader --with ./plain", "code"),
        ("loader -p", "plain"),
        ("loader -pplain", "asks"),
    ],
)
def test_a_value_that_a_table_names_for_an_option_does_no_harm(line: str, effect: str) -> None:
    assert [one.effect.value for one in form(line).options] == [effect]


@pytest.mark.parametrize("line", ["loader run x ''*", "loader run ''*", "loader run x *.ts"])
def test_a_word_that_may_become_an_option_of_a_level_above_is_not_understood(line: str) -> None:
    assert form(line).unclear


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a", "not valid TOML"),
        ('[a]\nweird = "x"', "weird"),
        ('[a]\nplain = "-x [--y"', "not written like an option"),
        ('[a]\nplain = "-x"\nasks = "-x"', "is listed twice"),
        ('[a]\noperands = "thing*"', "not a kind of operand"),
        ('[a]\noperands = "read* name*"', "not a kind of operand"),
        ('[a]\nfirst_from = "-e"', "not an option of it"),
        ('[a]\nuse = "b"', "no group `b`"),
        ('[a]\nharmless = { "-x" = "y" }', "not an option of it"),
        ('[a]\ncode = "-x=Y"\nharmless = { "-x" = "(" }', "not a regular expression"),
        ('[a.commands.b]\naliases = ["c"]\n[a.commands.c]', "is listed twice"),
    ],
)
def test_a_table_that_is_written_wrongly_is_refused(text: str, says: str) -> None:
    with pytest.raises(TableError, match=says):
        list(read_tables(text))
