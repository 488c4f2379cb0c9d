"""Shared options of the `policy` commands: the rules, their dialect, and the place they apply to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ledger.client.machine import machine_facts
from ledger.core.errors import InputError
from ledger.core.policy import Layer, Policy, PolicySource
from ledger.policy.check_questions import source_of, with_facts
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import DEFAULT_DIALECT, DIALECTS, compile_policy, dialect_named
from ledger.policy.stored_rules import placed
from workers.cli.base import LedgerCommand, Run, json_option
from workers.cli.output import talk

_TOP: Final = "project"
SHOWN_COUNT: Final = 4
"""The number of places named when no file was found."""

_OPTIONS: Final = (
    click.Option(["--dialect"], type=click.Choice(sorted(DIALECTS)), help="The dialect of the rules."),
    click.Option(
        ["--profile"], type=click.Choice(["hardened", "faithful"]), help="Safer, or as the source (default: hardened)."
    ),
    click.Option(["--config"], metavar="FILE", help="A file of rules; the layer above all others."),
    click.Option(
        ["--layer", "layer"], multiple=True, metavar="NAME=FILE", help="A layer below it, lowest first; repeatable."
    ),
    click.Option(["--defaults"], is_flag=True, default=None, help="Add the source's built-in rules."),
    click.Option(["--cwd"], metavar="FOLDER", help="The agent's working directory (default: here)."),
    click.Option(["--home"], metavar="FOLDER", help="The home directory of the agent's user."),
    click.Option(["--sandbox-root"], metavar="FOLDER", help="The folder that `cd` may not leave (codelia)."),
    click.Option(["--agent"], metavar="NAME", help="The agent whose section of the rules counts (opencode)."),
    click.Option(["--mode"], metavar="MODE", help="The permission mode (claude)."),
    click.Option(["--edition"], metavar="NAME", help="The edition of the source (opencode, codelia)."),
    click.Option(["--order"], metavar="ORDER", help="insertion or key-length (opencode)."),
    click.Option(["--compat"], metavar="VERSION", help="v2, or v1 where grants lift denies too (opencode)."),
    click.Option(
        ["--supports-confirm/--no-confirm", "supports_confirm"], default=None, help="A person can be asked, or nobody."
    ),
    click.Option(["--fs"], metavar="JSON", help='Facts about files, {"path": "file" | "dir" | "-> target"}.'),
    click.Option(["--grants"], metavar="JSON", help="A list of grants in force, in the dialect's shape."),
)
_PLAIN: Final = ("dialect", "profile", "defaults", "agent", "mode", "edition", "order", "compat", "supports_confirm")
_NAMES: Final = (*_PLAIN, "config", "layer", "cwd", "home", "sandbox_root", "fs", "grants")


class Choices(NamedTuple):
    """The shared options as typed."""

    typed: Mapping[str, Any]

    @property
    def dialect(self) -> str:
        dialect: str | None = self.typed["dialect"]
        return dialect or DEFAULT_DIALECT

    @property
    def spoken(self) -> Dialect:
        return dialect_named(self.dialect)

    @property
    def cwd(self) -> str:
        return str(Path(self.typed["cwd"] or ".").absolute())

    @property
    def home(self) -> str:
        return str(Path(self.typed["home"] or Path.home()).absolute())

    def named(self) -> dict[str, Any]:
        """Return the typed options as members of a line of `check`, files read. Raises PolicyError, InputError."""
        named = {name: self.typed[name] for name in _PLAIN if self.typed[name] is not None}
        # As a session opened there: the explanation then matches the ledger's verdict.
        named |= placed(PolicySource(self.dialect), cwd=self.cwd, home=self.home).options
        if self.typed["sandbox_root"] is not None:
            named["sandbox_root"] = str(Path(self.typed["sandbox_root"]).absolute())
        for name, kind in (("fs", dict), ("grants", list)):
            if self.typed[name] is not None:
                named[name] = json_of(self.typed[name], f"--{name}", kind)
        layers, top = self._files()
        return named | ({"layers": layers} if layers else {}) | ({} if top is None else {"config": top})

    def found(self) -> dict[str, Any]:
        """As `named`; if no file was typed, with those that the source's program would find here."""
        named = {"dialect": self.dialect, **self.named()}
        if not self.has_files:
            named["layers"] = list(self.spoken.find(self.cwd, os.environ, home=self.home))
        return named

    def places(self) -> tuple[str, ...]:
        """Return the files where the source's program looks, existing or not."""
        return tuple(dict.fromkeys(map(str, self.spoken.searched(self.cwd, os.environ, home=self.home))))

    def no_files(self) -> InputError:
        """Return the error of a command that needs a file of rules and finds none."""
        places = self.places()
        looked = ", ".join(f"`{place}`" for place in places[:SHOWN_COUNT])
        more = f" and {len(places) - SHOWN_COUNT} more places" if len(places) > SHOWN_COUNT else ""
        text = f"there is no file of `{self.dialect}` rules here: looked for {looked}{more}"
        return InputError(f"{text}; name one with --config FILE, or the language of your rules with --dialect")

    @property
    def has_files(self) -> bool:
        return bool(self.typed["config"] or self.typed["layer"])

    @property
    def files(self) -> list[str]:
        """Return the typed files, lowest layer first."""
        layers = [_name_and_file(one)[1] for one in self.typed["layer"]]
        return [*layers, *([self.typed["config"]] if self.typed["config"] else [])]

    @property
    def strict(self) -> bool:
        profile: str | None = self.typed["profile"]
        return profile != "faithful"

    def _files(self) -> tuple[list[Layer], Layer | None]:
        layers = [self._load(*_name_and_file(one)) for one in self.typed["layer"]]
        return layers, self._load(_TOP, self.typed["config"]) if self.typed["config"] else None

    def _load(self, name: str, file: str) -> Layer:
        return self.spoken.load(file, name=name, strict=self.strict)

    def policy(self, *, quiet: bool) -> Policy:
        """Return the typed or found rules, compiled. Raises PolicyError."""
        found = self.found()
        if not quiet and not found.get("layers") and not found.get("config"):
            talk(f"hint: no file of `{self.dialect}` rules was found here; name one with --config FILE")
        return with_facts(compile_policy(source_of(found)), machine_facts())


def _name_and_file(text: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    if not equals or not name or not file:
        raise InputError(f"--layer `{text}` must be NAME=FILE, for example `user=settings.json`")
    return name, file


def json_of(text: str, option: str, kind: type) -> Any:
    """Return an option's JSON value of a kind. Raises InputError."""
    wanted = "a list" if kind is list else "an object"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option} is not JSON: {error}") from None
    if not isinstance(value, kind):
        raise InputError(f"{option} must be {wanted}")
    return value


def policy_command(
    name: str, *, examples: Sequence[str], with_rules: bool = True, with_json: bool = True
) -> Callable[[Run], LedgerCommand]:
    """Make a function a command; with `with_rules` it gets the shared options as `choices`."""

    def decorate(function: Run) -> LedgerCommand:
        def run(*, as_json: bool = False, **typed: Any) -> int | None:
            if not with_rules:
                return function(as_json=as_json, **typed)
            choices = Choices({option: typed.pop(option) for option in _NAMES})
            return function(choices=choices, as_json=as_json, **typed)

        run.__doc__ = function.__doc__
        run.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        made: LedgerCommand = click.command(name, cls=LedgerCommand, examples=examples)(run)
        made.params += [*(_OPTIONS if with_rules else ()), *([json_option()] if with_json else [])]
        return made

    return decorate
