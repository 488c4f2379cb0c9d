"""The command-line options of a bridge or a hook, and the body that opens its session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from ledger.core.regular_files import read_regular
from workers.bridges.session_ids import home_of_agent, project_of
from workers.transport.place import GRACE_SECONDS, BridgeError
from workers.transport.trusted import digest_of, load_records, rules_trusted_for, why_untrusted

OnUnreachable = Literal["deny", "agent"]
"""The choice without an answer: deny, or leave the question to the agent's own prompt. Never allow."""

ON_UNREACHABLE: Final[tuple[OnUnreachable, ...]] = ("deny", "agent")
PROFILES: Final = ("hardened", "faithful")
PROFILE_ALONE: Final = (
    "`--profile` needs `--rules FILE`: without it the gateway's own rules judge, in the profile that they were given"
)
RULES_BYTES_MAX: Final = 512 * 1024

_SECTION: Final = {
    "claude": "permissions",
    "betcode": "permissions",
    "codelia": "permissions",
    "opencode": "permission",
    "brutus": "permission",
}
"""The one member of a configuration that holds rules; keys and tokens beside it never leave the machine."""

_DEMANDS: Final = "demands"
"""The member with conditions on answers, in a file of any dialect."""


class BridgeOptions(NamedTuple):
    """`session` None: the client's own id. `rules` None: the gateway's rules judge.

    `profile` None: `hardened`. `attended` and `unattended` are durations (`60s`, `7d`, `none`). None: those of the
    gateway.
    """

    session: str | None = None
    project: str | None = None
    dialect: str = "claude"
    rules: str | None = None
    on_unreachable: OnUnreachable = "deny"
    grace: float = GRACE_SECONDS
    attended: str | None = None
    unattended: str | None = None
    profile: str | None = None

    @property
    def deadlines(self) -> dict[str, str]:
        """Return the given deadlines in the gateway's form."""
        stated = {"attended": self.attended, "unattended": self.unattended}
        return {name: text for name, text in stated.items() if text is not None}


def opening(options: BridgeOptions, *, agent: str, cwd: str | None) -> dict[str, Any]:
    """Return the body that opens the session. The default project is the working directory. Raises BridgeError."""
    body: dict[str, Any] = {"dialect": options.dialect, "agent": agent, "project": options.project or project_of(cwd)}
    body |= {name: value for name, value in (("cwd", cwd), ("home", home_of_agent())) if value is not None}
    if options.deadlines:
        body["timeouts"] = options.deadlines
    if options.rules is not None:
        body |= given_rules(options.rules, options.dialect, options.profile)
    elif options.profile is not None:
        raise BridgeError(PROFILE_ALONE)
    elif (trusted := rules_trusted_for(cwd)) is not None:
        body["project_rules"] = trusted
    return body


def given_rules(path: str, dialect: str, profile: str | None) -> dict[str, Any]:
    """Return the members of the opening body that bring a file's rules and their profile. Raises BridgeError.

    The rules of a project's file that is not as the user trusted it are brought as untrusted.
    """
    content = _read(path)
    body: dict[str, Any] = {"rules": _rules_in(path, content, dialect), "policy_source": path}
    reason = why_untrusted(path, digest_of(content), load_records())
    if reason is not None:
        body["rules_untrusted"] = reason
    return body if profile is None else {**body, "options": {"profile": profile}}


def check_rules(options: BridgeOptions) -> None:
    """Raise BridgeError for unreadable rules: at the start, and not at the first call."""
    if options.rules is not None:
        read_rules(options.rules, options.dialect)


def read_rules(path: str, dialect: str) -> list[Any] | dict[str, Any]:
    """Return the rules of a JSON file, and nothing else in it. Raises BridgeError: no file does not mean no rules."""
    return _rules_in(path, _read(path), dialect)


def _read(path: str) -> bytes:
    try:
        return read_regular(path, RULES_BYTES_MAX)
    except OSError as error:
        raise BridgeError(f"the rules `{path}` cannot be read: {(error.strerror or str(error)).lower()}") from error


def _rules_in(path: str, content: bytes, dialect: str) -> list[Any] | dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise BridgeError(f"the rules `{path}` are not JSON: {error}") from error
    if isinstance(found, list):
        return found
    if not isinstance(found, Mapping):
        raise BridgeError(f"the rules `{path}` must hold an object or a list of rules")
    section = _SECTION.get(dialect)
    other = next((name for name in _SECTION.values() if name in found), None)
    if section is not None and section not in found and other is not None:
        raise BridgeError(
            f"the rules `{path}` stand below `{other}`; in the words of `{dialect}` they stand below `{section}`"
        )
    demands = {name: found[name] for name in (_DEMANDS,) if name in found}
    return dict(found) if section is None else {section: found.get(section, {}), **demands}
