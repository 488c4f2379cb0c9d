"""The rules that a "remember" adds to Codelia's project file, besides its grant (codelia.md 8).

The asker writes the file, because it runs on the machine of the project's folder; the approver may be elsewhere. The
answer and its grant are in the log by then, and do not depend on the file. Writing is idempotent.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Final, Protocol

import msgspec

from ledger.client.results import Result
from ledger.core.errors import LedgerError, StoreError
from ledger.core.grants import Grants
from ledger.core.policy import Layer, PolicySource
from ledger.log.stream import Stream
from ledger.policy.checks import shown
from ledger.policy.codelia import CodeliaPolicy, RuleObject, load_config, write_remembered
from ledger.policy.codelia.loader import PROJECT_CONFIG
from ledger.policy.codelia.remember import not_allowed_yet, remembered_rules
from ledger.policy.codelia.rule import read_layers, rule_text
from ledger.policy.errors import PolicyError
from ledger.project.state import ProjectState
from ledger.session.state import SessionState

log = logging.getLogger(__name__)

DIALECT: Final = "codelia"

Folder = str | os.PathLike[str]


class Remembers(Protocol):
    """The members of a session that remembering uses."""

    async def state(self) -> SessionState: ...

    async def _project_stream(self, state: SessionState) -> Stream[ProjectState] | None: ...


class Remembering:
    """The part of `Session` that writes the rules of an `always` to the project's configuration."""

    async def remember(self: Remembers, result: Result, folder: Folder | None = None) -> Result:
        """In dialect `codelia`, add the rules of an `always` to `.codelia/config.json` (codelia.md 8).

        Return the result with a message about the added rules, or the failure. A failure never raises, because the call
        is allowed regardless of the file. The file is that of the session's own layer, else that of the session's
        folder, else of `folder`; no folder is created. Nothing is written for any other dialect, reply or outcome, nor
        for a grant that is already revoked.
        """
        settled = result.settled
        if settled is None or result.outcome != "allowed" or settled.reply != "always" or not settled.grants:
            return result
        try:
            state = await self.state()
            if state.policy is None or state.policy.dialect != DIALECT:
                return result
            # Not "those in force": the approver may be about to write the project's grant.
            revoked = _revoked(state.grants)
            if (project := await self._project_stream(state)) is not None:
                revoked |= _revoked((await project.refresh()).grants)
        except StoreError as error:
            return _told(result, _failed(error))
        file = config_file(state.policy, state.cwd or folder)
        if file is None:
            log.info("session %s has no folder, so no file of it remembers anything", result.session)
            return result
        granted = zip(settled.grants, settled.granted_patterns, strict=True)
        entries = [pattern for grant_id, pattern in granted if grant_id not in revoked]
        policy = CodeliaPolicy(state.policy)
        rules = not_allowed_yet(remembered_rules(result.request.permission, entries), policy.rules.allow)
        return _told(result, await _written(file, rules) if rules else None)


def _revoked(grants: Grants) -> frozenset[str]:
    return frozenset(grant.grant_id for grant in grants.values() if grant.revoked_ms is not None)


def _told(result: Result, message: str | None) -> Result:
    return result if message is None else msgspec.structs.replace(result, message=message)


def _failed(error: LedgerError) -> str:
    log.warning("nothing was added to a configuration: %s", error)
    return f"the answer and its grant stand, but no file remembers them: {error}"


def config_file(source: PolicySource, folder: Folder | None) -> Path | None:
    """Return Codelia's file of the project; None where its folder is unknown or not on this machine."""
    loaded = next((layer.file for layer in reversed(source.layers) if _is_projects(layer)), None)
    if loaded is not None:
        return Path(loaded)
    named = source.options.get("sandbox_root") or source.options.get("cwd") or folder
    return Path(named) / PROJECT_CONFIG if named is not None and Path(named).is_absolute() else None


def _is_projects(layer: Layer) -> bool:
    file = layer.file
    return layer.name == "project" and file is not None and file.startswith("/") and file.endswith(f"/{PROJECT_CONFIG}")


async def _written(file: Path, rules: tuple[RuleObject, ...]) -> str | None:
    try:
        return await asyncio.to_thread(_write, file, rules)
    except PolicyError as error:
        return _failed(error)


def _write(file: Path, rules: tuple[RuleObject, ...]) -> str | None:
    """Add rules; return them in words, or None where the file had all of them."""
    project = file.parent.parent
    if not project.is_dir():
        # The session may belong to another machine; a folder created here would be no project.
        raise PolicyError(f"there is no folder {shown(str(project))} on this machine", file=str(file))
    allowed = read_layers((load_config(file, strict=False),), strict=False).allow if file.exists() else ()
    new = not_allowed_yet(rules, allowed)
    if not new or not write_remembered(file, new):
        return None
    return f"remembered in `{file}`: {', '.join(map(rule_text, new))}"
