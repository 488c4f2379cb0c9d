"""The options of a source, checked by name. All errors are PolicyError and name the option."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from ledger.core.policy import Layer
from ledger.policy.checks import origin_of, shown
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts, MappedFacts, NoFacts
from ledger.policy.limits import LAYER_COUNT, RULE_COUNT

Profile = Literal["hardened", "faithful"]

PROFILES: Final[tuple[Profile, ...]] = ("hardened", "faithful")

_Choice = TypeVar("_Choice", bound=str)


class GivenOptions:
    """Options by name. Raises PolicyError for one that the dialect does not have."""

    def __init__(self, dialect: str, options: Mapping[str, Any], names: Collection[str]) -> None:
        for name in options:
            if name not in names:
                known = ", ".join(names)
                raise PolicyError(f"the {dialect} dialect has no option {shown(name)}; it has {known}", key=name)
        self._options = options

    def _wrong(self, name: str, wanted: str) -> PolicyError:
        return PolicyError(f"the option `{name}` must be {wanted}, not {shown(self._options[name])}", key=name)

    def choice(self, name: str, known: Sequence[_Choice], default: _Choice | None = None) -> _Choice:
        """Return an option with a closed list of values; the default is the first one."""
        value = self._options.get(name)
        if value is None:
            return known[0] if default is None else default
        for one in known:
            if one == value:
                return one
        raise self._wrong(name, " or ".join(f"`{one}`" for one in known))

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self._options.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return default if value is None else value

    def text(self, name: str) -> str | None:
        value = self._options.get(name)
        if value is None or (isinstance(value, str) and value):
            return value
        raise self._wrong(name, "a string that is not empty")

    def folder(self, name: str) -> str | None:
        """Return an absolute path, without a slash at its end."""
        value = self._options.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.startswith("/"):
            raise self._wrong(name, "an absolute path")
        return value.rstrip("/") or "/"

    def facts(self, base: str, known: FileFacts | None) -> FileFacts:
        """Return the facts of the option `fs`, relative to `base`; else the known ones."""
        entries = self._options.get("fs")
        if entries is None:
            return known or NoFacts()
        if not isinstance(entries, Mapping):
            raise self._wrong("fs", "an object from path to fact")
        return MappedFacts(entries, base)


def check_layers(layers: Sequence[Layer]) -> None:
    """Raise PolicyError for more layers than a policy may have, and for one with a configuration and rules."""
    if len(layers) > LAYER_COUNT:
        raise PolicyError(f"the policy has {len(layers)} layers; at most {LAYER_COUNT} are accepted")
    for layer in layers:
        if layer.config is not None and layer.rules:
            raise origin_of(layer).problem("a layer holds either a configuration or rules, not both", ())


def check_count(count: int) -> None:
    """Raise PolicyError for more rules than a policy may have."""
    if count > RULE_COUNT:
        raise PolicyError(f"the policy has {count} rules; at most {RULE_COUNT} are accepted")
