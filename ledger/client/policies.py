"""The compiled policies of a process, and the rules of an `always` that are written to a file."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from pathlib import Path

import msgspec

from ledger.client.grounds import Grounds
from ledger.client.machine import machine_facts
from ledger.client.results import Result
from ledger.core.errors import InputError, LedgerError, RulesUnreadableError, StoreError
from ledger.core.grants import Grants
from ledger.core.limits import POLICIES_KEPT_COUNT, POLICY_BYTES
from ledger.core.policy import Policy, PolicySource
from ledger.log.stream import Stream
from ledger.policy.dialect import MemoryFile
from ledger.policy.dialects import compile_policy, dialect_of
from ledger.policy.errors import PolicyError
from ledger.policy.evaluation_cache import RememberingPolicy
from ledger.policy.stored_rules import digest, placed
from ledger.session.state import SessionState

log = logging.getLogger(__name__)


class CompiledPolicies:
    """A cache of compiled policies, with this machine's files as their facts."""

    def __init__(self) -> None:
        self._policies: OrderedDict[tuple[str, str | None, str | None], Policy] = OrderedDict()

    def check(self, source: PolicySource) -> str:
        """Return the digest of a policy that can be compiled. Raises InputError, PolicyError."""
        size = len(msgspec.json.encode(source))
        if size > POLICY_BYTES:
            raise InputError(f"the rules take {size} bytes; at most {POLICY_BYTES} are accepted")
        policy_digest = digest(source)
        if (policy_digest, None, None) not in self._policies:
            _require_same(source, policy_digest)
        self.compiled(source, policy_digest)
        return policy_digest

    def known(self, state: SessionState) -> Policy | None:
        """Return the compiled rules of a session, if this process has them."""
        key = (state.policy_digest, state.cwd, state.home)
        policy = self._policies.get(key)
        if policy is not None:
            self._policies.move_to_end(key)
        return policy

    def of(self, state: SessionState, source: PolicySource) -> Policy:
        """Return the compiled rules of a session; `source` are its rules."""
        return self.compiled(source, state.policy_digest, state.cwd, state.home)

    def of_agent(self, policy: Policy, agent: str | None) -> Policy:
        """Return the policy by which the calls of an agent are judged."""
        own = dialect_of(policy.source).of_agent(policy.source, agent)
        return policy if own is policy.source else compile_policy(own)

    def compiled(
        self, source: PolicySource, policy_digest: str, cwd: str | None = None, home: str | None = None
    ) -> Policy:
        """Return the compiled policy for a folder and a home."""
        key = (policy_digest, cwd, home)
        policy = self._policies.get(key)
        if policy is None:
            compiled = compile_policy(placed(source, cwd=cwd, home=home))
            policy = self._policies[key] = RememberingPolicy(compiled, machine_facts())
            if len(self._policies) > POLICIES_KEPT_COUNT:
                self._policies.popitem(last=False)
        else:
            self._policies.move_to_end(key)
        return policy


def _require_same(source: PolicySource, policy_digest: str) -> None:
    """Raise InputError for rules that are others once they were stored, such as a number that JSON lacks."""
    try:
        stored = msgspec.json.decode(msgspec.json.encode(source), type=PolicySource)
    except msgspec.MsgspecError as error:
        raise InputError(f"the rules cannot be stored: {error}") from error
    if digest(stored) != policy_digest:
        raise InputError("the rules hold a value that JSON lacks, so they cannot be stored as they are")


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
            memory = dialect_of(state.language).memory
            if state.rules_redacted or memory is None:
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
        file = memory.file(rules, state.cwd or folder)
        if file is None:
            log.info("session %s has no folder, so no rule was written to a file", result.session)
            return result
        granted = zip(settled.grants, settled.granted_patterns, strict=False)
        entries = [pattern for grant_id, pattern in granted if grant_id not in revoked]
        return _told(result, await _written(memory, file, rules, result.request.permission, entries))


def _revoked(grants: Grants) -> frozenset[str]:
    return frozenset(grant.grant_id for grant in grants.values() if grant.revoked_ms is not None)


def _told(result: Result, message: str | None) -> Result:
    return result if message is None else msgspec.structs.replace(result, message=message)


def _failed(error: LedgerError) -> str:
    log.warning("no rule was added to a configuration file: %s", error)
    return f"the answer and its grant were recorded, but not written to a file: {error}"


async def _written(
    memory: MemoryFile, file: Path, source: PolicySource, permission: str, entries: list[str]
) -> str | None:
    try:
        return await asyncio.to_thread(memory.remember, file, source, permission, entries)
    except PolicyError as error:
        return _failed(error)
