"""Options of an opencode policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts, MappedFacts, NoFacts
from ledger.policy.opencode.builtin import DEFAULT_AGENT, Folders
from ledger.policy.opencode.places import OpenCodePlaces

Profile = Literal["hardened", "faithful"]
OpenCodeEdition = Literal["current", "opencode.md"]
Order = Literal["insertion", "key-length"]
Compat = Literal["v1", "v2"]

_PROFILES: Final[tuple[Profile, ...]] = ("hardened", "faithful")
_EDITIONS: Final[tuple[OpenCodeEdition, ...]] = ("current", "opencode.md")
_ORDERS: Final[tuple[Order, ...]] = ("insertion", "key-length")
_COMPATS: Final[tuple[Compat, ...]] = ("v1", "v2")
_DATA: Final = "/.local/share/opencode"
_TEMPORARY: Final = "/tmp/opencode"  # noqa: S108 (the program's own folder, named in a rule and never opened)

_Choice = TypeVar("_Choice", bound=str)


class OpenCodeOptions(msgspec.Struct, frozen=True):
    """Checked options, with all defaults resolved."""

    profile: Profile = "hardened"
    edition: OpenCodeEdition = "current"
    order: Order = "insertion"
    compat: Compat = "v2"
    agent: str | None = None
    home: str | None = None
    defaults: bool = False
    cwd: str | None = None
    worktree: str | None = None
    sandbox_root: str | None = None
    data: str | None = None
    tmp: str = _TEMPORARY
    facts: FileFacts = msgspec.field(default_factory=NoFacts)

    @property
    def hardened(self) -> bool:
        return self.profile == "hardened"

    def places(self, cwd: str | None = None) -> OpenCodePlaces:
        """Return the places of a call that runs in its own `cwd`, or in the agent's start directory."""
        return OpenCodePlaces.of(
            project=self.cwd,
            cwd=cwd,
            worktree=self.worktree,
            home=self.home,
            facts=self.facts,
            deep=self.hardened,
            sandbox=self.sandbox_root,
        )

    def folders(self) -> Folders:
        plans = None
        if self.data is not None and (self.worktree or self.cwd) is not None:
            plans = self.places().from_worktree(self.data + "/plans") + "/*.md"
        return Folders(self.data, self.tmp, plans)


_NAMES: Final = (*(name for name in OpenCodeOptions.__struct_fields__ if name != "facts"), "fs")


def read_options(options: Mapping[str, Any], facts: FileFacts | None) -> OpenCodeOptions:
    """Check the options of a source; `fs` among them replaces `facts`. Raises PolicyError."""
    for name in options:
        if name not in _NAMES:
            known = ", ".join(_NAMES)
            raise PolicyError(f"the opencode dialect has no option {shown(name)}; it has {known}", key=name)
    profile = _choice(options, "profile", _PROFILES, "hardened")
    edition = _choice(options, "edition", _EDITIONS, "current")
    defaults = _flag(options, "defaults")
    home, cwd = _text(options, "home"), _folder(options, "cwd")
    data = _folder(options, "data")
    if data is None and home is not None:
        data = home.rstrip("/") + _DATA
    return OpenCodeOptions(
        profile=profile,
        edition=edition,
        order=_choice(options, "order", _ORDERS, "insertion" if edition == "current" else "key-length"),
        compat=_choice(options, "compat", _COMPATS, "v2" if profile == "hardened" else "v1"),
        agent=_text(options, "agent") or (DEFAULT_AGENT if defaults else None),
        home=home,
        defaults=defaults,
        cwd=cwd,
        worktree=_folder(options, "worktree"),
        sandbox_root=_folder(options, "sandbox_root"),
        data=data,
        tmp=_folder(options, "tmp") or _TEMPORARY,
        facts=_facts(options, cwd) or facts or NoFacts(),
    )


def _facts(options: Mapping[str, Any], cwd: str | None) -> FileFacts | None:
    entries = options.get("fs")
    if entries is None:
        return None
    if not isinstance(entries, Mapping):
        raise PolicyError(f"the option `fs` must be an object from path to fact, not {shown(entries)}", key="fs")
    return MappedFacts(entries, cwd or "/")


def _choice(options: Mapping[str, Any], name: str, known: Sequence[_Choice], default: _Choice) -> _Choice:
    value = options.get(name)
    if value is None:
        return default
    for choice in known:
        if choice == value:
            return choice
    wanted = " or ".join(f"`{choice}`" for choice in known)
    raise PolicyError(f"the option `{name}` must be {wanted}, not {shown(value)}", key=name)


def _text(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    raise PolicyError(f"the option `{name}` must be a string that is not empty, not {shown(value)}", key=name)


def _flag(options: Mapping[str, Any], name: str) -> bool:
    value = options.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise PolicyError(f"the option `{name}` must be true or false, not {shown(value)}", key=name)


def _folder(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("/"):
        raise PolicyError(f"the option `{name}` must be an absolute path, not {shown(value)}", key=name)
    return value.rstrip("/") or "/"
