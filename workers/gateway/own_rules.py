"""The gateway's own rule files, which judge sessions without rules of their own, always in their current version."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Final

from ledger import LedgerError, Session
from ledger.client.policy_files import LOOK_SECONDS, PolicyFiles, PolicyWatch, judge_by_files
from ledger.policy import PolicySource
from ledger.policy.dialects import compile_policy, dialect_named
from workers.gateway.gateway import Gateway

log = logging.getLogger(__name__)

GATEWAYS_OWN: Final = "gateway"
"""Value in the log for a session that the gateway's own rules judge."""


def rule_file(dialect: str, file: Path) -> PolicyFiles:
    """Return the rules of one file, reloaded when the file has changed."""
    return PolicyFiles(partial(_load, dialect, file))


def _load(dialect: str, file: Path) -> PolicySource:
    source = PolicySource(dialect=dialect, layers=(dialect_named(dialect).load(file, name=GATEWAYS_OWN),))
    compile_policy(source)
    return source


def follow_own_rules(gateway: Gateway, session: Session) -> None:
    """Judge this handle's asks by the gateway's files, if the session is judged by them.

    A change is recorded in the session before it is used. While a file cannot be read nothing is judged: the ask raises
    PolicyError, and pending requests go on waiting.
    """
    state = session.stream.state
    if state.policy_source != GATEWAYS_OWN:
        return
    files = gateway.settings.policies.get(state.dialect)
    if files is not None:
        judge_by_files(gateway.ledger, session, files, policy_source=GATEWAYS_OWN, denies_alone=True)


async def follow_while_waiting(gateway: Gateway) -> None:
    """Record changes of the files in all sessions with pending requests, also while nobody asks; never returns.

    A reply is judged by the rules that its session names, so a new deny must be recorded there without an ask.
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
    for state in await gateway.ledger.waiting.states():
        if state.policy_source == GATEWAYS_OWN and state.dialect == dialect:
            session = Session(gateway.ledger, state.session_id)
            await PolicyWatch(gateway.ledger, session, files, GATEWAYS_OWN, denies_alone=True).check()
