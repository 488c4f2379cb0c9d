"""The files that a line executes or reads as a program, before anybody looks at a disk."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.limits import OPERAND_COUNT, OPERAND_PATH_BYTES, OPERAND_PATH_COUNT
from ledger.core.operands import WantedOperand, tidy
from ledger.core.policy import Call
from ledger.policy.data_files import TableError
from ledger.policy.operands import operands_wanted
from ledger.policy.shell.forms.nodes import OperandKind, known_programs, program_table
from ledger.policy.shell.operands import wanted_operands
from ledger.policy.shell.tables.operands import PROGRAM_FILES, read_programs
from tests.policy.compiling import parse_toml
from tests.support.rows import every

FOLDER: Final = "/w"
HOME: Final = "/home/ann"
TABLE: Final = Path(__file__).parents[2] / "data/policy/operands.txt"


def rows() -> list[tuple[str, tuple[str, ...]]]:
    """The lines of the table, each with its files as written."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for text in TABLE.read_text(encoding="utf-8").splitlines():
        if text.startswith("    "):
            line, files = found.pop()
            found.append((line, (*files, text.strip())))
        elif text and not text.startswith("#"):
            found.append((text.replace("⏎", "\n"), ()))
    return found


ROWS: Final = rows()


def as_written(wanted: WantedOperand, expected: str) -> str:
    """A wanted file in the notation of the table; its alternatives only if the table has some."""
    names = [path.removeprefix(f"{FOLDER}/") if path != FOLDER else "." for path in wanted.paths]
    marks = ("*" if wanted.is_glob else "") + ("?" if wanted.is_optional else "")
    return marks + ("|".join(names) if "|" in expected else names[0])


def names_of(line: str) -> list[str]:
    return [one.paths[0].removeprefix(f"{FOLDER}/") for one in wanted_operands(line, FOLDER, HOME)]


def test_the_table_has_more_than_two_hundred_lines() -> None:
    assert len(ROWS) > 200
    assert len({line for line, _ in ROWS}) == len(ROWS)


@every(("line", "files"), ROWS)
def test_a_line_executes_the_files_of_the_table(line: str, files: tuple[str, ...]) -> None:
    found = wanted_operands(line, FOLDER, HOME)
    padded = [*files, *[""] * len(found)]
    assert [as_written(one, padded[at]) for at, one in enumerate(found)] == list(files)


@pytest.mark.parametrize("line", ["./deploy.sh", "python x.py", "make", "cd app && ./x.sh", "bash ~/x.sh"])
def test_without_a_folder_only_absolute_paths_are_files(line: str) -> None:
    assert wanted_operands(line, None) == ()
    assert wanted_operands("/srv/x.sh", None) == (WantedOperand(("/srv/x.sh",)),)


def test_a_line_of_many_files_names_a_bounded_number() -> None:
    line = "; ".join(f"./s{number}.sh" for number in range(500))
    assert len(wanted_operands(line, FOLDER)) == OPERAND_COUNT


def test_a_line_too_long_to_be_judged_names_none() -> None:
    assert wanted_operands("./x.sh " + "a" * 70_000, FOLDER) == ()


def test_a_path_is_as_long_as_the_system_permits() -> None:
    assert wanted_operands(f"./{'a' * 5_000}", FOLDER) == ()
    deep = "/" + "/".join(["d"] * 500)
    assert all(len(one.paths) <= OPERAND_PATH_COUNT for one in wanted_operands("npm test", deep))


SCRIPTS: Final = [
    "./deploy.sh",
    "bash -e deploy.sh",
    "python deploy.py",
    "make -f build.mk",
    "node tool.js",
    ". env.sh",
]
PREFIXES: Final = ["sudo", "env A=1", "timeout 5", "nice -n 3", "nohup", "command", "exec", "setsid", "xargs -n 1"]
WRAPPINGS: Final = [
    "LINE", "time LINE", "( LINE )", "{ LINE; }", "if true; then LINE; fi", "true && LINE", "echo $(LINE)", "echo `LINE`",
    "bash -c 'LINE'", "eval 'LINE'", "find . -exec LINE \\;", "LINE > log 2>&1", "LINE | tee log", "! LINE", "LINE &",
    "while read -r x; do LINE; done", "for x in a b; do LINE; done", "sh <<X\nLINE\nX", "trap 'LINE' EXIT",
]  # fmt: skip
quotings = st.sampled_from(
    [
        lambda word: word,
        lambda word: f"'{word}'",
        lambda word: f'"{word}"',
        lambda word: word[:1] + f"'{word[1:]}'",
        lambda word: "\\" + word if word[:1].isalpha() else word,
        lambda word: word[:-1] + f'"{word[-1]}"',
    ]
)


@given(st.sampled_from(SCRIPTS), st.lists(st.sampled_from(PREFIXES), max_size=3), st.sampled_from(WRAPPINGS))
def test_a_wrapped_spelling_names_the_same_file(line: str, prefixes: list[str], wrapping: str) -> None:
    wrapped = wrapping.replace("LINE", " ".join([*prefixes, line]))
    assert names_of(line)[0] in names_of(wrapped)


@given(st.sampled_from(["./deploy.sh", "bash deploy.sh", "make -f build.mk"]), st.data())
def test_a_quoted_spelling_names_the_same_file(line: str, data: st.DataObject) -> None:
    quoted = " ".join(data.draw(quotings)(word) for word in line.split())
    assert names_of(quoted) == names_of(line)


WORDS: Final = [
    *[
        "./x.sh",
        "bash",
        "-c",
        "-e",
        "sh",
        "<",
        "s.sh",
        "python",
        "-m",
        "a.b",
        "make",
        "-C",
        "-f",
        "..",
        "/",
        "~",
        "~/x",
    ],
    *[
        "$X",
        "${Y}",
        "X=1",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "|",
        "&&",
        ";",
        "\n",
        "cd",
        "npm",
        "run",
        "docker",
        "compose",
        "{}",
    ],
    *[
        "*.sh",
        "[",
        "a b",
        "\x00",
        "\ud800",
        "é",
        "--",
        "-",
        "+o",
        "=",
        "<(",
        "go",
        "cargo",
        "terraform",
        "-chdir=x",
        "eval",
    ],
]


@given(
    st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=14).map(" ".join),
    st.sampled_from([None, "/", "/w", "/w/a/b", "/dev", "//w//x/"]),
    st.sampled_from([None, "/home/ann"]),
)
def test_every_line_is_read_without_an_error_and_within_the_bounds(
    line: str, folder: str | None, home: str | None
) -> None:
    found = wanted_operands(line, folder, home)
    assert len(found) <= OPERAND_COUNT
    assert len(set(found)) == len(found)
    for one in found:
        assert 0 < len(one.paths) <= OPERAND_PATH_COUNT
        for path in one.paths:
            assert path == tidy(path)
            assert len(path.encode("utf-8", "surrogatepass")) <= OPERAND_PATH_BYTES


# --- calls


@pytest.mark.parametrize("tool", ["bash", "Bash", "shell", "run_shell_command", "execute"])
def test_the_command_of_a_shell_tool_counts(tool: str) -> None:
    call = Call(tool, (), tool, {"command": "./deploy.sh"}, "/w")
    assert operands_wanted(call) == (WantedOperand(("/w/deploy.sh",)),)


@pytest.mark.parametrize("tool", ["write", "Edit", "read", "webfetch", "apply_patch"])
def test_a_tool_that_runs_no_line_has_none(tool: str) -> None:
    call = Call(tool, ("./deploy.sh",), tool, {"command": "./deploy.sh", "file_path": "deploy.sh"}, "/w")
    assert operands_wanted(call) == ()


def test_a_command_in_words_counts_like_its_line() -> None:
    call = Call("shell", (), "shell", {"command": ["bash", "-lc", "./my\\ deploy.sh"]}, "/w")
    assert operands_wanted(call) == (WantedOperand(("/w/my deploy.sh",)),)


def test_the_patterns_of_a_shell_permission_are_its_lines() -> None:
    assert operands_wanted(Call("bash", ("./a.sh", "./b.sh"), cwd="/w")) == (
        WantedOperand(("/w/a.sh",)),
        WantedOperand(("/w/b.sh",)),
    )


@pytest.mark.parametrize(("workdir", "path"), [("app", "/w/app/x.sh"), ("/srv", "/srv/x.sh"), ("../v", "/v/x.sh")])
def test_the_folder_that_the_input_names_is_where_it_runs(workdir: str, path: str) -> None:
    call = Call("bash", (), "bash", {"command": "./x.sh", "workdir": workdir}, "/w")
    assert operands_wanted(call) == (WantedOperand((path,)),)


@pytest.mark.parametrize("given_input", [None, 3, "x", [], {}, {"command": 3}, {"command": [1]}, {"cmd": None}])
def test_an_odd_input_has_none(given_input: Any) -> None:
    assert operands_wanted(Call("bash", (), "bash", given_input, "/w")) == ()


# --- the table of programs


def test_each_program_with_a_script_in_its_own_table_is_in_this_one() -> None:
    lacking = []
    for name in known_programs():
        node = program_table(name)
        kinds = node.operands.first if node is not None and node.operands is not None else ()
        if OperandKind.SCRIPT in kinds and not {name, node.name if node else name} & set(PROGRAM_FILES):
            lacking.append(name)
    assert lacking == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a]\nvalud = '-x'", "`a`: Object contains unknown field `valud`"),
        ("[a]\nvalued = 'x'", "`a`: `x` is not an option, but stands in `valued`"),
        ("[a]\nvalued = '-x'\nfiles = '-x'", "`a`: `-x` stands in `valued` and in `files`"),
        ("[a]\ndefault = '/etc/x'", "`a`: `/etc/x` is not a path below the folder"),
        ("[a]\nbeside = '../x'", "`a`: `../x` is not a path below the folder"),
        ("[a]\nbeside = '*/x'", "`a`: `*/x` is not a path below the folder"),
        ("[a]\ndefault = '*.mk'", "`a`: `default` has names, not patterns"),
        ("[a]\nplace = true\nprogram = 'all'", "`a`: the first operand cannot be both a folder and a program"),
        ("[a]\nprogram = 'last'", "`a`: Invalid enum value 'last'"),
        ("[a.subcommands.b]\nvalued = 'y'", "`a`: policy/shell/tables/operands.toml: `b`: `y` is not an option"),
    ],
)
def test_a_wrong_entry_is_refused_when_it_is_read(text: str, says: str) -> None:
    with pytest.raises(TableError, match=re.escape(says)):
        read_programs(parse_toml(text, "operands.toml"))


def test_every_program_is_listed_in_lower_case() -> None:
    assert [name for name in PROGRAM_FILES if name != name.lower() or posixpath.basename(name) != name] == []
