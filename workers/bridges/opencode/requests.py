"""OpenCode's sessions opened at the gateway, and its requests asked there."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

from workers.bridges.opencode.server import OpenCode
from workers.bridges.opencode.shapes import RequestAsked
from workers.bridges.options import BridgeOptions, opening
from workers.bridges.rule_files import FollowedRules
from workers.transport.errors import BridgeError
from workers.transport.gateway_client import GatewayClient, Row

MARK: Final = "opencode"
"""The member of a request's metadata that names the OpenCode server: bridges of other servers leave the request
alone."""

METADATA_CHARS_MAX: Final = 200_000
BEHIND_CHARS_MAX: Final = 60_000
"""The longest input of a call behind a folder; of a longer one metadata holds the length alone."""

MEMBER_CHARS_MAX: Final = 14_000
"""The characters kept of a long text (a diff) when the metadata would be too large for the ledger."""

BEHIND: Final = "behind"
"""The member of metadata that holds the call behind a folder, as the ledger's own requests for folders have it."""

FOLDER: Final = "external_directory"

MEMBER_COUNT_MAX: Final = 8
LINEAGE_DEPTH_MAX: Final = 16


class Sessions:
    """The sessions that are open at the gateway. A sub-agent's session is opened after its parent's."""

    def __init__(self, client: GatewayClient, opencode: OpenCode, options: BridgeOptions) -> None:
        self._client = client
        self._opencode = opencode
        self._options = options
        self._opening: dict[str, asyncio.Task[str | None]] = {}
        self._places: dict[str, str | None] = {}
        self._rules = FollowedRules(options.rules)
        self._rules.read()

    def following(self) -> AbstractAsyncContextManager[None]:
        """Give all open sessions the current rules within seconds of a change of the file, until the block ends."""
        return self._rules.followed(self._bring_anew)

    async def _bring_anew(self) -> None:
        """Open all open sessions again with the current rules. Raises BridgeError if one fails; it is retried."""
        self._rules.read()
        self._opening.clear()
        opened = (self._opened(session, directory) for session, directory in list(self._places.items()))
        ends = await asyncio.gather(*opened, return_exceptions=True)
        problem = next((one for one in ends if isinstance(one, BaseException)), None)
        if problem is not None:
            self._rules.forget()
            raise BridgeError(str(problem)) from problem

    def name(self, session: str) -> str:
        """Return the ledger's name of a session."""
        return self._options.session or session

    @property
    def are_opencodes(self) -> bool:
        """Return whether each of OpenCode's sessions is a session of the ledger."""
        return self._options.session is None

    def forget(self, session: str) -> None:
        """Forget that a session is open, since the gateway has another ledger by now."""
        self._opening.pop(session, None)
        self._places.pop(session, None)

    async def open(self, session: str, directory: str | None) -> str | None:
        """Open a session once, with the current rules; return the name of the agent that works in it.

        Raises BridgeError, and the errors in `wire.LOST`.
        """
        self._places[session] = directory
        if self._rules.have_changed:
            with suppress(BridgeError):  # a failure here is reported below, of others at their next ask
                await self._bring_anew()
        return await self._opened(session, directory)

    async def _opened(self, session: str, directory: str | None) -> str | None:
        task = self._opening.get(session)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._opening[session] = asyncio.create_task(self._open(session, directory, LINEAGE_DEPTH_MAX))
        return await asyncio.shield(task)

    async def _open(self, session: str, directory: str | None, depth: int) -> str | None:
        known = await self._opencode.session(session, directory)
        agent = _text(known, "agent")
        where = _text(known, "directory") or directory
        parent = _text(known, "parentID")
        if parent is not None and depth and self.are_opencodes:
            await self._open(parent, directory, depth - 1)
        body = opening(self._options, agent=(agent if parent else None) or "opencode", cwd=where)
        lineage = {"parent": parent} if parent is not None and self.are_opencodes else {}
        await self._client.open_session(self.name(session), **body, **lineage)
        return agent

    async def call_behind(self, asked: RequestAsked) -> Row | None:
        """Return the call that needs a folder, for a person; None for another request. Raises the errors in `wire.LOST`."""
        found = await self._opencode.call_behind(asked) if asked.permission == FOLDER else None
        if found is None:
            return None
        tool, given = found
        size = len(json.dumps(given))
        return {"tool": tool, "input": given} if size <= BEHIND_CHARS_MAX else {"tool": tool, "input_chars": size}


def ask_body(asked: RequestAsked, agent: str | None, url: str, behind: Row | None = None) -> Row:
    """Return the ask's body for the gateway, with OpenCode's own id: asked again it attaches."""
    body: Row = {
        "request_id": asked.request_id,
        "permission": asked.permission,
        "patterns": list(asked.patterns),
        "always": list(asked.always),
        "operands": "ask",
        "metadata": {
            **_bounded(asked.metadata),
            **({} if behind is None else {BEHIND: behind}),
            MARK: {"url": url, "directory": asked.directory},
        },
    }
    if asked.is_question:
        # As a tool call: a person answers in its input.
        body |= {"tool_name": asked.permission, "input": asked.input}
    if asked.call_id is not None:
        body["tool"] = {"message_id": asked.message_id, "call_id": asked.call_id}
    if agent is not None:
        body["agent"] = agent
    if asked.directory is not None and asked.directory.startswith("/"):
        body["cwd"] = asked.directory
    return body


def mark_of(row: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Return URL and directory of the OpenCode that a pending request came from; None for other programs."""
    metadata = row.get("metadata")
    mark = metadata.get(MARK) if isinstance(metadata, Mapping) else None
    if not isinstance(mark, Mapping) or not isinstance(mark.get("url"), str):
        return None
    directory = mark.get("directory")
    return mark["url"], directory if isinstance(directory, str) else None


def _bounded(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(metadata)) <= METADATA_CHARS_MAX:
        return metadata
    return {name[:200]: _shortened(value) for name, value in list(metadata.items())[:MEMBER_COUNT_MAX]}


def _shortened(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) <= MEMBER_CHARS_MAX // 2:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: MEMBER_CHARS_MAX // 2]}\n… cut: {len(text)} characters in all, SHA-256 {digest}"


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value else None
