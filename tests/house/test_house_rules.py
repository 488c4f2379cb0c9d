"""House rules that no linter checks. Each failure names the replacement."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from typing import Final

import pytest

from tests.house.sources import (
    PACKAGES,
    ROOT,
    WRITTEN,
    files,
    imports_of,
    module_of,
    names_used,
    nodes_of,
    strings_in,
    text_of,
)
from tests.support.rows import none_of

MOST_LINES: Final = 600

PURE: Final = (
    "ledger/session/*",
    "ledger/policy/*",
    "ledger/core/events.py",
    "ledger/core/codec.py",
    "ledger/core/commitments.py",
)
SOURCES: Final = files(*PACKAGES)
PURE_SOURCES: Final = [file for file in SOURCES if any(fnmatch(file, pattern) for pattern in PURE)]


@dataclass(frozen=True)
class Ban:
    """A name banned in files of these patterns (except `besides`), and its replacement."""

    name: str
    where: tuple[str, ...]
    instead: str
    besides: tuple[str, ...] = ()

    def covers(self, file: str) -> bool:
        return any(fnmatch(file, pattern) for pattern in self.where) and file not in self.besides


TESTS: Final = ("tests/*",)
WAITING: Final = ("tests/support/waiting.py",)

COMPILING: Final = (
    "ledger/core/late_patterns.py",
    "ledger/log/redactions.py",
)
"""Files that compile what somebody has written, when it is read or used."""

PROFILE: Final = ("tests/support/profile.py",)
SECOND_TRIES: Final = ("tests/support/second_tries.py",)

BANS: Final = [
    Ban("time.sleep", TESTS, "wait_until of tests.support.waiting: it names the condition", WAITING),
    Ban("asyncio.sleep", TESTS, "wait_until_async of tests.support.waiting: it names the condition", WAITING),
    Ban("hypothesis.HealthCheck", TESTS, "the profile of tests.support.profile: for all, not test by test", PROFILE),
    Ban("pytest.mark.flaky", TESTS, "the cause of it: second tries are for browsers and agents", SECOND_TRIES),
    Ban("pytest.skip", TESTS, "give the test what it needs"),
    Ban("pytest.importorskip", TESTS, "give the test what it needs"),
    Ban("pytest.mark.skip", TESTS, "give the test what it needs"),
    Ban("pytest.mark.skipif", TESTS, "give the test what it needs"),
    Ban("re.compile", ("ledger/*", "projections/*"), "late_pattern of ledger.core.late_patterns", COMPILING),
    Ban("print", ("ledger/*", "projections/*"), "return it: what a person sees is printed by workers"),
    Ban("datetime.datetime.now", PURE, "a time in the command or the state"),
    Ban("datetime.datetime.utcnow", PURE, "a time in the command or the state"),
    Ban("datetime.datetime.today", PURE, "a time in the command or the state"),
    Ban("datetime.date.today", PURE, "a time in the command or the state"),
    Ban("time.time", PURE, "a time in the command or the state"),
    Ban("time.time_ns", PURE, "a time in the command or the state"),
    Ban("time.monotonic", PURE, "a time in the command or the state"),
    Ban("os.environ", PURE, "a value that the caller read"),
    Ban("os.getenv", PURE, "a value that the caller read"),
    Ban("os.urandom", PURE, "an id in the command"),
]

# Signals between parts of one package: caught before they reach a caller, so they are not in the public tree.
SIGNALS: Final = {
    "workers.bridges.stdio.LongLineError": "the reading of that pipe ends, with a word on stderr",
    "workers.bridges.hooks.question.SettledHereError": "the hook ends: the user has answered at the agent's own prompt",
    "workers.bridges.hooks.exchange.ReaderGoneError": "the hook ends: nobody reads its answer",
    "workers.transport.place.BridgeError": "a bridge never imports the ledger; its command line tells it as it tells others",
    "workers.transport.place.GatewayRefusalError": "as BridgeError",
    "workers.transport.place.UnreachableError": "as BridgeError",
    "workers.transport.trusted.TrustListError": "as BridgeError; the gateway and the command line make it an error of theirs",
    "workers.bridges.opencode.effects.NoVerdictError": "the request is refused at opencode, with the reason",
    "workers.bridges.opencode.shapes.ShapeError": "the request is refused where it can be named, and told of",
    "workers.gateway.opencode.OpenCodeError": "answered as OpenCode's own server refuses",
    "ledger.policy.jsonc.JsonSyntaxError": "becomes a PolicyError with file and line",
    "ledger.policy.shell.lexer.NotPlain": "the line is not plain, with the reason; a way out of nested functions",
    "ledger.stores.embedded.launch.UnfitError": "the next place for a server binary is tried",
    "ledger.stores.embedded.errors.AbandonedError": "the server that was waited for is given up; another is started",
    "ledger.stores.redis.replies.Refusal": "a reply among others; `refusal_of` makes it an error of the ledger",
    "ledger.stores.redis.link.LinkError": "the store says what it means for the command: unreachable or in doubt",
    "ledger.stores.port.Foreign": "the fold reports it as damage",
}

# Not imported by any other module of the packages, on purpose.
ENTRANCES: Final = {
    "ledger.guarding.langgraph": "for programs that use LangGraph",
    "ledger.client.policy_files": "for agent workers whose rules lie in files that people edit",
    "workers.bridges.claude.sdk": "for programs that use claude-agent-sdk",
    "workers.bridges.hooks.run": "the file that an installed hook names",
    "workers.cli.reference": "for those who change a command: it writes docs/reference/cli.md",
    "ledger.testing": "for the tests of those who use the ledger",
}


def test_a_file_uses_no_banned_name() -> None:
    none_of(
        f"{file}:{line}: `{name}` is not used here; instead: {ban.instead}"
        for file in files("tests", *PACKAGES)
        if (bans := {ban.name: ban for ban in BANS if ban.covers(file)})
        for line, name in names_used(file)
        if (ban := bans.get(name))
    )


def test_no_test_sets_a_deadline_of_its_own_for_examples() -> None:
    none_of(
        (
            f"{file}:{node.lineno}"
            for file in files("tests")
            for node in nodes_of(file)
            if isinstance(node, ast.keyword) and node.arg == "deadline" and file not in PROFILE
        ),
        "`deadline` is set for all in tests/support/profile.py",
    )


def test_every_pattern_of_pure_files_matches_some() -> None:
    none_of(pattern for pattern in PURE if not any(fnmatch(file, pattern) for file in SOURCES))


def test_pure_code_never_waits() -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    none_of(f"{file}:{node.lineno}" for file in PURE_SOURCES for node in nodes_of(file) if isinstance(node, waiting))


def test_no_file_holds_leftover_notes() -> None:
    """Of files written by people; recordings, pictures and test data stay as they are."""
    leftover = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
    none_of(
        f"{file}:{number}: {line}"
        for file in files(*WRITTEN, suffix="")
        if not {"data", "corpus", "cases"} & {*file.split("/")} and not file.endswith(".png")
        for text in [(ROOT / file).read_text(encoding="utf-8", errors="replace")]
        if leftover.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if leftover.search(line)
    )


def test_a_source_file_is_short_enough_to_be_read_in_one_go() -> None:
    lengths = {file: len(text_of(file).splitlines()) for file in SOURCES}
    none_of(f"{file}: {length} lines" for file, length in lengths.items() if length > MOST_LINES)


def test_key_names_are_made_in_one_module_only() -> None:
    none_of(
        (
            f"{file}:{line}: `{text}`"
            for file in SOURCES
            if file != "ledger/stores/keys.py"
            for line, text in strings_in(file)
            if text.startswith(("pl:", "{pl:"))
        ),
        "Every key name comes from ledger/stores/keys.py.",
    )


def test_scripts_are_given_their_keys() -> None:
    none_of(
        (
            f"{file}: {found}"
            for file in files("ledger", suffix=".lua")
            for found in re.findall(r"""["']\{?pl:""", text_of(file))
        ),
        "A script takes its keys from KEYS.",
    )


def test_every_error_is_named_so_and_derives_from_the_root() -> None:
    none_of(
        name
        for file in SOURCES
        if any(isinstance(node, ast.ClassDef) for node in nodes_of(file))
        for name in _strangers(module_of(file))
        if name not in SIGNALS
    )


def _strangers(module: str) -> list[str]:
    """Return the module's own errors that are named otherwise or derive from another root."""
    from ledger.core.errors import LedgerError  # noqa: PLC0415 - a broken package is this test's failure, not the file's

    classes = [value for value in vars(importlib.import_module(module)).values() if isinstance(value, type)]
    own = [cls for cls in classes if issubclass(cls, BaseException) and cls.__module__ == module]
    return [
        f"{module}.{cls.__name__}"
        for cls in own
        if not (cls.__name__.endswith("Error") and issubclass(cls, LedgerError)) and not _shown_by_click(cls)
    ]


def _shown_by_click(cls: type) -> bool:
    """Return whether click gives the error its exit code, as it does for the command line's own errors."""
    return cls.__name__.endswith("Error") and any(base.__module__ == "click.exceptions" for base in cls.__mro__)


def test_every_exempted_signal_exists() -> None:
    none_of(
        name
        for name in SIGNALS
        for module, _, cls in [name.rpartition(".")]
        if not isinstance(getattr(importlib.import_module(module), cls, None), type)
    )


def test_every_module_is_imported_by_another_or_is_an_entrance() -> None:
    entered = {*_reached(), *_started(), *ENTRANCES}
    modules = [module_of(file) for file in SOURCES if not file.endswith(("__init__.py", "__main__.py"))]
    none_of(module for module in modules if module not in entered)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """An import for types alone counts, too."""
    modules = {module_of(file): file for file in SOURCES if not file.endswith("__init__.py")}
    graph = {module: {name for _, name in imports_of(file) if name in modules} for module, file in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def _reached() -> set[str]:
    """Return the modules that a source file imports, or names in a string for a late import."""
    return {
        name.partition(":")[0]
        for file in SOURCES
        for _, name in (*imports_of(file), *strings_in(file))
        if name.partition(":")[0] != module_of(file)
    }


def _started() -> set[str]:
    """Return the modules that the installed distribution starts by itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = [project.get("scripts", {}), *project.get("entry-points", {}).values()]
    return {target.partition(":")[0] for group in points for target in group.values()}
