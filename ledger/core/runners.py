"""Runners of calls, and the ids of their claims. Pure."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

_ID_CHARS: Final = 26

_KEPT_COUNT: Final = 1024
"""The cache size of claim ids: each is needed several times in a row."""

GivenRunner: TypeAlias = "Runner | str | bool"
"""A runner; its name alone, whose call is then the request; or True, for the opened ledger of this process."""


class Runner(msgspec.Struct, frozen=True, gc=False):
    """The program that runs a call: its `name`, and the `call` by the id that this program gives it.

    Two processes with the same runner count as one: the second succeeds where the first died. So the name must be one
    of a single agent, connection or worker, and the call one of a single run.
    """

    name: str
    call: str


@lru_cache(_KEPT_COUNT)
def claim_id_of(runner: Runner) -> str:
    """Return the id of a runner's claim: `clm_` and 26 hexadecimal digits of the SHA-256 of its name, LF, its call."""
    return "clm_" + sha256(f"{runner.name}\n{runner.call}".encode()).hexdigest()[:_ID_CHARS]
