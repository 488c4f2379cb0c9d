"""The rules that a gateway was started with judge the sessions whose agents bring none, as their files are now."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Final

from ledger import LedgerError, Session
from ledger.client.policy_files import LOOK_SECONDS, PolicyFiles, PolicyWatch, judge_by_files
from ledger.policy import PolicySource
from ledger.policy.dialects import compile_policy
from ledger.policy.files import load_layer
from workers.gateway.gateway import Gateway

log = logging.getLogger(__name__)

GATEWAYS_OWN: Final = "gateway"
"""Where the rules of such a session come from, as its log says it."""


def rule_file(dialect: str, file: Path) -> PolicyFiles:
    """The rules of one file, read anew when it has changed."""
    return PolicyFiles(partial(_load, dialect, file))


def _load(dialect: str, file: Path) -> PolicySource:
    source = PolicySource(dialect=dialect, layers=(load_layer(dialect, file, name=GATEWAYS_OWN),))
    compile_policy(source)
    return source


def follow_own_rules(gateway: Gateway, session: Session) -> None:
    """Judge what this handle asks by the gateway's files, if the session is judged by them.

    A change is recorded in the session before anything is judged by it. While a file cannot be read nothing is judged:
    the ask raises PolicyError, and what is pending waits on.
    """
    state = session.stream.state
    if state.policy is None or state.policy_source != GATEWAYS_OWN:
        return
    files = gateway.settings.policies.get(state.policy.dialect)
    if files is not None:
        judge_by_files(gateway.ledger, session, files, policy_source=GATEWAYS_OWN, denies_alone=True)


async def follow_while_waiting(gateway: Gateway) -> None:
    """Record a change of the files in the sessions in which a request waits, also while nobody asks; never returns.

    A reply is judged by the rules that its session names, so a new deny must get there by itself.
    """
    recorded: dict[str, PolicySource] = {}
    while True:
        for dialect, files in gateway.settings.policies.items():
            try:
                current = await files.current()
                if recorded.get(dialect) is not current:
                    await _record(gateway, dialect, files)
                    recorded[dialect] = current
            except (LedgerError, OSError) as error:
                log.warning("the rules of requests that wait were not brought up to date: %s", error)
        await asyncio.sleep(LOOK_SECONDS)


async def _record(gateway: Gateway, dialect: str, files: PolicyFiles) -> None:
    for state in await gateway.ledger.pending_states():
        policy = state.policy
        if state.policy_source == GATEWAYS_OWN and policy is not None and policy.dialect == dialect:
            session = Session(gateway.ledger, state.session_id)
            await PolicyWatch(gateway.ledger, session, files, GATEWAYS_OWN, denies_alone=True).check()
