"""The options in an installed hook's line: `--session`, `--rules`, `--grace`, `--limit`, `--event` and others."""

from __future__ import annotations

import os

from workers.bridges.hooks.exchange import HookProcess
from workers.bridges.session_ids import folder_name, home_of_agent, project_of
from workers.transport.place import GRACE_SECONDS, BridgeError, data_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LIMIT_SECONDS = 600.0
"""The client's own limit for a hook; the hook answers a little earlier."""

_TEXTS = ("--session", "--project", "--rules", "--attended", "--unattended")
MARGIN_SECONDS = 5.0


class HookSettings:
    """`limit` and `grace` in seconds; `session` None: the agent's own; `rules` None: the gateway's."""

    def __init__(self, dialect: str, limit: float = LIMIT_SECONDS) -> None:
        self.process = HookProcess()
        self.dialect = dialect
        self.session: str | None = None
        self.project: str | None = None
        self.rules: str | None = None
        self.attended: str | None = None
        self.unattended: str | None = None
        self.profile: str | None = None
        self.on_unreachable = "deny"
        self.grace = GRACE_SECONDS
        self.limit = limit
        self.hands_on = False
        """Calls without a rule are asked at the agent's own terminal too."""

    @property
    def patience(self) -> float:
        """Return the seconds that the hook may take."""
        return max(self.limit - MARGIN_SECONDS, self.limit / 2)

    @classmethod
    def read(cls, words: Sequence[str], dialect: str, limit: float = LIMIT_SECONDS) -> HookSettings:
        """Read the options. Raises BridgeError for an unknown word: a misspelt option must not mean another one."""
        settings = cls(dialect, limit)
        left = list(words)
        while left:
            name, equals, value = left.pop(0).partition("=")
            if not equals:
                if not left:
                    raise BridgeError(f"`{name}` needs a value")
                value = left.pop(0)
            settings._set(name, value)
        if settings.profile is not None and settings.rules is None:
            raise BridgeError("`--profile` needs `--rules FILE`: without it the gateway's own rules judge")
        return settings

    def _set(self, name: str, value: str) -> None:
        if name in _TEXTS or (name == "--dialect" and value in ("claude", "betcode")):
            setattr(self, name[2:], value)
        elif name in ("--grace", "--limit"):
            setattr(self, name[2:], _seconds(name, value))
        elif name == "--event" and value == "both":
            self.hands_on = True
        elif name == "--profile" and value in ("hardened", "faithful"):
            self.profile = value
        elif name == "--on-unreachable" and value in ("deny", "agent"):
            self.on_unreachable = value
        else:
            raise BridgeError(f"`{name} {value}` is not an option of this hook")

    def opening(self, known: dict[str, Any]) -> dict[str, Any]:
        """Return the body that opens the session. Raises BridgeError when the rules cannot be read."""
        place = {"project": self.project or project_of(known.get("cwd")), "home": home_of_agent()}
        body: dict[str, Any] = {"dialect": self.dialect, **known, **place}
        deadlines = {"attended": self.attended, "unattended": self.unattended}
        if any(deadlines.values()):
            body["timeouts"] = {name: text for name, text in deadlines.items() if text is not None}
        if self.rules is not None:
            from workers.bridges.options import given_rules  # noqa: PLC0415 - once a session

            body |= given_rules(self.rules, self.dialect, self.profile)
        return {name: value for name, value in body.items() if value is not None}

    def rules_of_now(self) -> dict[str, Any]:
        """Return the body that gives an open session the current rules. Raises BridgeError when they cannot be read."""
        from workers.bridges.options import given_rules  # noqa: PLC0415 - once a change

        assert self.rules is not None, "without a file nothing is brought"
        return {"dialect": self.dialect, **given_rules(self.rules, self.dialect, self.profile)}

    def left_behind(self, session: str) -> bool:
        """Return whether an asker of this session waits, or was killed while it did."""
        try:
            with os.scandir(f"{data_folder()}/askers/{folder_name(session)}") as found:
                return next(found, None) is not None
        except OSError:
            return False


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 86400:
        raise BridgeError(f"`{name} {value}` must be seconds, at most a day")
    return seconds
