"""Options of the dialect `codelia`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ledger.policy.checks import shown
from ledger.policy.codelia.system import CodeliaEdition
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts
from ledger.policy.toolrules.options import read_options

_OWN: Final = ("sandbox_root", "supports_confirm", "defaults", "edition")
_SHARED: Final = ("profile", "cwd", "home", "fs")
OPTIONS: Final = (*_SHARED, *_OWN)
_EDITIONS: Final[tuple[CodeliaEdition, ...]] = ("codelia.md", "current")


class CodeliaOptions(msgspec.Struct, frozen=True):
    """Checked options.

    `cwd` is a command's start directory, `sandbox_root` the folder it must not leave; both absolute.
    """

    hardened: bool
    cwd: str
    facts: FileFacts
    sandbox_root: str | None = None
    supports_confirm: bool = True
    defaults: bool = False
    edition: CodeliaEdition = "codelia.md"


def read_codelia_options(options: Mapping[str, Any], facts: FileFacts | None) -> CodeliaOptions:
    """Check the options of a source. Raises PolicyError."""
    root = _root(options.get("sandbox_root"))
    shared = {name: value for name, value in options.items() if name not in _OWN}
    if shared.get("cwd") is None and root is not None:
        shared["cwd"] = root
    common = read_options("codelia", shared, facts, OPTIONS)
    return CodeliaOptions(
        hardened=common.hardened,
        cwd=common.cwd,
        facts=common.facts,
        sandbox_root=root,
        supports_confirm=_flag(options, "supports_confirm", default=True),
        defaults=_flag(options, "defaults", default=False),
        edition=_edition(options.get("edition")),
    )


def _root(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("/"):
        raise PolicyError(f"the option `sandbox_root` must be an absolute path, not {shown(value)}", key="sandbox_root")
    return value


def _flag(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = options.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise PolicyError(f"the option `{name}` must be true or false, not {shown(value)}", key=name)
    return value


def _edition(value: object) -> CodeliaEdition:
    if value is None:
        return _EDITIONS[0]
    for edition in _EDITIONS:
        if edition == value:
            return edition
    wanted = " or ".join(f"`{edition}`" for edition in _EDITIONS)
    raise PolicyError(f"the option `edition` must be {wanted}, not {shown(value)}", key="edition")
