"""Regular expressions that are compiled when they are used first. A short command uses few of those that it imports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, AnyStr, Generic


class _Late(Generic[AnyStr]):
    """A pattern with the members of `re.Pattern`, each of which is looked up once."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self._written: tuple[AnyStr, int] = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(re.compile(*self._written), name)
        return found


if TYPE_CHECKING:
    LatePattern = re.Pattern[str]
else:
    LatePattern = _Late


def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is used first, which raises `re.error` for an invalid one."""
    return _Late(pattern, flags)  # type: ignore[return-value]
