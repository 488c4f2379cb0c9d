"""The rules that an `always` adds to a file of the project, besides its grant, in dialects that do so.

The asker writes the file, because it runs on the machine of the project's folder; the approver may be elsewhere. The
answer and its grant are in the log by then, and do not depend on the file. Writing is idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from ledger.client.grounds import Grounds
from ledger.client.results import Result
from ledger.core.errors import LedgerError, RulesUnreadableError, StoreError
from ledger.core.grants import Grants
from ledger.core.policy import PolicySource
from ledger.log.stream import Stream
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import dialect_of
from ledger.policy.errors import PolicyError
from ledger.session.state import SessionState

log = logging.getLogger(__name__)


class RuleMemory:
    """The writer of the rules of an `always` to the configuration of a session's project."""

    def __init__(self, stream: Stream[SessionState], grounds: Grounds) -> None:
        self._stream = stream
        self._grounds = grounds

    async def remember(self, result: Result, folder: str | Path | None = None) -> Result:
        """Write the rules of an answer; see `Session.remember`."""
        settled = result.settled
        if settled is None or result.outcome != "allowed" or settled.reply != "always" or not settled.grants:
            return result
        try:
            state = await self._stream.refresh()
            dialect = dialect_of(state.language)
            if state.rules_redacted or not dialect.remembers_in_file:
                return result
            rules = await self._grounds.rules(state)
            if settled.bounds is not None:
                return _told(result, "the grant has bounds, which a file cannot hold, so no rule was written to a file")
            # Not "those in force": the approver may be about to write the project's grant.
            revoked = _revoked(state.grants)
            if (project := await self._grounds.project(state)) is not None:
                revoked |= _revoked((await project.refresh()).grants)
        except (StoreError, RulesUnreadableError) as error:
            return _told(result, _failed(error))
        file = dialect.memory_file(rules, state.cwd or folder)
        if file is None:
            log.info("session %s has no folder, so no rule was written to a file", result.session)
            return result
        granted = zip(settled.grants, settled.granted_patterns, strict=False)
        entries = [pattern for grant_id, pattern in granted if grant_id not in revoked]
        return _told(result, await _written(dialect, file, rules, result.request.permission, entries))


def _revoked(grants: Grants) -> frozenset[str]:
    return frozenset(grant.grant_id for grant in grants.values() if grant.revoked_ms is not None)


def _told(result: Result, message: str | None) -> Result:
    return result if message is None else msgspec.structs.replace(result, message=message)


def _failed(error: LedgerError) -> str:
    log.warning("no rule was added to a configuration file: %s", error)
    return f"the answer and its grant were recorded, but not written to a file: {error}"


async def _written(
    dialect: Dialect, file: Path, source: PolicySource, permission: str, entries: list[str]
) -> str | None:
    try:
        return await asyncio.to_thread(dialect.remember, file, source, permission, entries)
    except PolicyError as error:
        return _failed(error)
