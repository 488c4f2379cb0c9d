"""The compiled policies of a process."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from ledger.client.machine import machine_facts
from ledger.core.errors import InputError
from ledger.core.limits import POLICIES_KEPT_COUNT, POLICY_BYTES
from ledger.core.policy import Policy, PolicySource
from ledger.policy.dialects import compile_policy, dialect_of
from ledger.policy.evaluation_cache import RememberingPolicy
from ledger.policy.stored_rules import digest, placed
from ledger.session.state import SessionState


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
