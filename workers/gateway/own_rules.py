"""The rules of sessions that bring none: those of the project in which they work, else the gateway's own.

Always in their current version. A project's rules are those that the user of this gateway trusts for the folder of the
session; a session once judged by a project's rules is never judged by another's.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ledger import LedgerError, Session
from ledger.client.policy_files import LOOK_SECONDS, PolicyFiles, PolicyWatch, judge_by_files
from ledger.core.errors import InputError
from ledger.core.policy import PolicySource
from ledger.core.requests import check_folder
from ledger.session.state import SessionState
from workers.gateway.gateway import Gateway
from workers.gateway.principals import ForbiddenError, Principal
from workers.runtime.project_rules import named_rules, project_of_source, rules_of_file, source_name

ROOT: Final = "/"


def folder_to_open(principal: Principal, stated: str | None) -> str | None:
    """Return the folder of a session to be opened. Raises ForbiddenError, InputError."""
    folder = check_folder(stated, "working directory")
    if principal.brings_rules or not principal.folders:
        return folder
    if folder is None:
        return principal.folders[0] if len(principal.folders) == 1 else None
    if not _is_in_any(folder, principal.folders):
        raise ForbiddenError(
            f"this token works in {_named(principal.folders)}, not in `{folder}`", folders=list(principal.folders)
        )
    return folder


def require_folder(principal: Principal, state: SessionState, stated: str | None) -> None:
    """Raise ForbiddenError for an ask in a folder outside those of its session and its token."""
    folder = check_folder(stated, "working directory")
    if principal.brings_rules or folder is None or folder == state.cwd:
        return
    own = [] if state.cwd is None or _normal(state.cwd) == ROOT else [state.cwd]
    if not _is_in_any(folder, own) or not _is_in_any(folder, principal.folders or own):
        where = f"works in {_named(own)}" if own else "has no folder"
        raise ForbiddenError(
            f"session `{state.session_id}` {where}, and a call of it cannot run in `{folder}`: this token brings no rules; "
            "open a session with that `cwd`, or leave `cwd` out",
            session=state.session_id,
            folders=own,
        )


def _is_in_any(folder: str, others: Sequence[str]) -> bool:
    path = _normal(folder)
    return any(path == base or path.startswith(f"{base.rstrip('/')}/") for base in map(_normal, others))


def _normal(path: str) -> str:
    """Return an absolute path without `.`, `..` and double slashes, also at the start, where POSIX permits two."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _named(folders: Sequence[str]) -> str:
    return " or ".join(f"`{one}`" for one in folders)


log = logging.getLogger(__name__)

GATEWAYS_OWN: Final = "gateway"
"""Value in the log for a session that the gateway's own rules judge."""


class ProjectRulesDifferError(LedgerError):
    """A caller that means other rules of its project than this gateway has for the session."""

    code = "PROJECT_RULES_DIFFER"


def rule_file(dialect: str, file: Path) -> PolicyFiles:
    """Return the rules of one file, reloaded when the file has changed."""
    return rules_of_file(dialect, file, name=GATEWAYS_OWN)


def rules_for(gateway: Gateway, folder: str | None, dialect: str) -> tuple[PolicyFiles | None, str]:
    """Return the rules for a session in a folder, and their name in the log. Raises PolicyError."""
    project = gateway.projects.file_of(folder)
    files = None if project is None else gateway.projects.rules(project, dialect)
    if project is not None and files is not None:
        return files, source_name(project)
    return gateway.settings.policies.get(dialect), GATEWAYS_OWN


def follow_own_rules(gateway: Gateway, session: Session) -> None:
    """Judge this handle's asks by the files of its project or the gateway, if the session brought no rules.

    A change is recorded in the session before it is used. While a file cannot be read nothing is judged: the ask raises
    PolicyError, and pending requests go on waiting.
    """
    files, name = _rules_of(gateway, session.stream.state)
    if files is not None:
        judge_by_files(gateway.ledger, session, files, policy_source=name, denies_alone=True)


def require_project_rules(gateway: Gateway, state: SessionState, digest: str | None) -> None:
    """Raise ProjectRulesDifferError unless the session is judged by the project's rules that the caller means.

    `digest` names what the caller's user trusted; None means no project's rules. Raises PolicyError.
    """
    if digest is None:
        return
    bound = project_of_source(state.policy_source)
    is_ours = bound is not None or state.policy_source == GATEWAYS_OWN
    file = bound or gateway.projects.file_of(state.cwd)
    if is_ours and gateway.projects.digest_of(file) == digest:
        return
    if not is_ours:
        has = f"session `{state.session_id}` was given other rules; start a new one"
    elif file is None:
        has = f"this gateway trusts no project's file for `{state.cwd or 'no folder'}`"
    else:
        has = f"this gateway trusts other content for `{file}`"
    raise ProjectRulesDifferError(
        f"the rules that you trusted for this project do not judge here: {has}; on the gateway's machine and as its user, "
        "read the project's file and run `permission-ledger config trust FOLDER`, or give the hook or bridge its rules "
        "with `--rules FILE`",
        session=state.session_id,
        file=file,
    )


def _rules_of(gateway: Gateway, state: SessionState) -> tuple[PolicyFiles | None, str]:
    project = project_of_source(state.policy_source)
    if project is not None:
        return gateway.projects.rules(project, state.dialect, is_bound=True), source_name(project)
    if state.policy_source != GATEWAYS_OWN:
        return None, GATEWAYS_OWN
    return rules_for(gateway, state.cwd, state.dialect)


async def follow_while_waiting(gateway: Gateway) -> None:
    """Record changes of the files in all sessions with pending requests, also while nobody asks; never returns.

    A reply is judged by the rules that its session names, so a new deny must be recorded there without an ask.
    """
    recorded: dict[PolicyFiles, PolicySource | None] = {}
    is_first = True
    while True:
        current = {files: await _current(files) for files in _in_use(gateway)}
        if (is_first or current != recorded) and await _record(gateway):
            recorded, is_first = current, False
        await asyncio.sleep(LOOK_SECONDS)


def _in_use(gateway: Gateway) -> Iterator[PolicyFiles]:
    yield from gateway.settings.policies.values()
    yield from gateway.projects.known()


async def _current(files: PolicyFiles) -> PolicySource | None:
    try:
        return await files.current()
    except (LedgerError, OSError) as error:
        log.warning("the rules of requests that wait were not brought up to date: %s", error)
        return None


async def _record(gateway: Gateway) -> bool:
    """Return whether every session that waits has its rules of now."""
    is_whole = True
    for state in await gateway.ledger.waiting.states():
        try:
            files, name = _rules_of(gateway, state)
            if files is not None:
                session = Session(gateway.ledger, state.session_id)
                await PolicyWatch(gateway.ledger, session, files, name, denies_alone=True).check()
        except (LedgerError, OSError) as error:
            log.warning("session %s was not brought up to date with its rules: %s", state.session_id, error)
            is_whole = False
    return is_whole


async def read_rule_files(texts: Sequence[str]) -> dict[str, PolicyFiles]:
    """Return the rules by dialect, each file read once. Raises InputError and PolicyError for unusable rules."""
    policies: dict[str, PolicyFiles] = {}
    for text in texts:
        dialect, file = named_rules(text)
        if dialect in policies:
            raise InputError(f"--rules names two files of dialect `{dialect}`; give one file a dialect")
        policies[dialect] = rule_file(dialect, Path(file))
        await policies[dialect].current()
    return policies
