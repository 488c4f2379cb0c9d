"""The question of an agent with the digest that binds an answer to it, and the runner of its call. Pure."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, TypeAlias

import msgspec

from ledger.core.call_digests import call_digest
from ledger.core.codec import canonical_json
from ledger.core.events import ToolRef
from ledger.core.operands import Operand
from ledger.core.policy import Call


class Question(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checked question of an agent. `digest` is the SHA-256 over call, `always`, metadata and tool.

    `call.cwd` is the folder that the call would run in; see `in_folder` for a call without one. `operands` are the files
    that it executes or reads as a program; None if nobody looked for them. They are compared at the claim. `waits_ms` is
    the time for which the asker says that it waits. `request_id` is set for deciders.
    """

    call: Call
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    tool: ToolRef | None = None
    agent: str | None = None
    parent: str | None = None
    operands: tuple[Operand, ...] | None = None
    waits_ms: int | None = None
    digest: str = ""
    request_id: str = ""


def request_digest(question: Question, folder: str | None) -> str:
    """Return the digest (`call_digest`) of a question in `folder`.

    None, for a call whose folder is unknown, omits the member `cwd`.
    """
    call = question.call
    return call_digest(
        permission=call.permission,
        patterns=call.patterns,
        tool_name=call.tool_name,
        tool_input=call.input,
        cwd=folder,
        metadata=question.metadata,
        always=question.always,
        tool=question.tool,
        encode=canonical_json,
    )


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
