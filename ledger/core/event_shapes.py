"""Base shapes of events, and values that several of them have."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ledger.core.limits import DURATION_MS_MAX

DurationMs = Annotated[int, msgspec.Meta(ge=0, le=DURATION_MS_MAX)]
"""A bounded duration, so that sums with it are valid times; an entry beyond the bound damages only its stream."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of every stored shape: immutable, and without defaults in the encoding.

    A value cannot be part of a reference cycle, so the garbage collector need not track it (`gc=False`): folds of many
    sessions hold millions of them.
    """


class Detail(Value, kw_only=True, frozen=True):
    """Base of the content of an event: its free text, which the log holds in a field of its own.

    `salt` is random (16 bytes, in base64url). It makes the commitment to the content, and digests of it, unguessable.
    Empty in an event that is not written yet.
    """

    salt: str = ""


class ReasonDetail(Detail, frozen=True):
    reason: str | None = None


class ToolRef(Value, frozen=True):
    """The tool call a request belongs to (`opencode.md`, Request.tool)."""

    message_id: str
    call_id: str


class Presence(Value, frozen=True):
    """A person's connected device."""

    client_id: str
    name: str
