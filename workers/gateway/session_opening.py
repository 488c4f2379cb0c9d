"""Opening a session over the gateway, and the choice of the rules that judge it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import to_builtins

from ledger import Session, Timeouts
from ledger.client.session_options import UNLIMITED_MS, policy_source_of, run_limits
from ledger.core.errors import InputError
from ledger.core.events import Settings
from ledger.core.ids import check_id
from ledger.core.policy import PolicySource
from ledger.core.timeouts import RunLimits
from ledger.core.times import SECOND_MS, format_duration
from ledger.policy.dialects import DEFAULT_DIALECT
from ledger.session.state import SessionState
from workers.gateway.bodies import SETTINGS, OpenSession
from workers.gateway.gateway import Gateway
from workers.gateway.own_rules import GATEWAYS_OWN, folder_to_open, require_project_rules, rules_for
from workers.gateway.principals import ForbiddenError, Principal
from workers.gateway.work import given_policy
from workers.gateway.worker_pool import rehearse_rules
from workers.runtime.project_rules import project_of_source


class RulesNotYoursError(ForbiddenError):
    """A choice of rules by an agent that may not bring rules."""

    code = "RULES_NOT_YOURS"


async def open_session(
    gateway: Gateway, principal: Principal, session_id: str, body: OpenSession
) -> tuple[Session, bool]:
    """Open or attach; return the session, and whether this call opened it.

    Raises ForbiddenError, InputError, UnknownSessionError.
    """
    check_id(session_id, "session id")
    state = await Session(gateway.ledger, session_id).state()
    is_new = state.opened_ms is None
    if not is_new:
        gateway.require_reach(principal, state)
    stands = gateway.settings.timeouts if is_new else Timeouts.of(state.settings)
    timeouts = stands if body.timeouts is None else stands.stated(to_builtins(body.timeouts), "timeouts.{}")
    limits = RunLimits.read(body.approval_lifetime, body.claim_timeout)
    if not principal.brings_rules:
        _require_own_rules(body)
        _require_no_longer(limits, gateway.settings.limits)
        if not is_new and (timeouts != stands or _differs(body, state) or _limits_differ(limits, state.settings)):
            raise RulesNotYoursError("this token may set time limits and the dialect only when it opens a session")
    limits = limits.over(gateway.settings.limits) if is_new else limits
    if body.parent is not None:
        await gateway.session(body.parent, principal)
    if is_new:
        gateway.holdings.open_session(principal.caller)
    await rehearse_rules(gateway.pool, principal.caller, body)
    folder = folder_to_open(principal, body.cwd)
    rules = await _rules(gateway, principal, body, folder, is_new=is_new)
    project = await _project(gateway, principal, session_id, body.project) if is_new else body.project
    session = await gateway.ledger.session(
        session_id,
        project=project,
        **rules,
        timeouts=timeouts if is_new or timeouts != stands else None,
        cascade_reject=body.cascade_reject,
        cascade_always=body.cascade_always,
        answering=body.answering,
        on_denied=body.on_denied,
        when_abandoned=body.when_abandoned,
        late_denies=body.late_denies,
        when_frozen=body.when_frozen,
        extending=body.extending,
        approval_lifetime=limits.approval_lifetime,
        claim_timeout=limits.claim_timeout,
        agent=body.agent,
        parent=body.parent,
        cwd=folder,
        # The caller that names the home decides what rules about `~` mean.
        home=body.home if principal.brings_rules else None,
        token_id=principal.root_id,
        actor=principal.actor,
    )
    # Another caller may have opened the session since the look-up.
    gateway.require_reach(principal, session.stream.state)
    require_project_rules(gateway, session.stream.state, body.project_rules)
    if body.rules_digest is not None and body.says_rules:
        gateway.brought.note(session.stream.state, body.rules_digest)
    return session, is_new


def _require_own_rules(body: OpenSession) -> None:
    """Raise RulesNotYoursError for rules in the body: an agent that could loosen its own rules would approve itself."""
    if body.says_rules or body.late_denies is not None:
        raise RulesNotYoursError(
            "this token brings no rules: the gateway's own judge (`serve --rules`), "
            "or make a token with `token create --brings-rules`"
        )


def _require_no_longer(stated: RunLimits, gateways: RunLimits) -> None:
    """Raise RulesNotYoursError for approvals that would count for longer than the gateway's own setting says."""
    limit = gateways.approval_lifetime
    if limit is not None and stated.approval_lifetime is not None and stated.approval_lifetime > limit:
        raise RulesNotYoursError(
            "this token may not let approvals count for longer than the gateway does "
            f"(`serve --approval-lifetime {format_duration(round(limit * SECOND_MS))}`)"
        )


def _limits_differ(stated: RunLimits, settings: Settings) -> bool:
    """Return whether limits are stated that differ from the session's."""
    given = run_limits(stated.approval_lifetime, stated.claim_timeout)
    found = (settings.approval_lifetime_ms or UNLIMITED_MS, settings.claim_timeout_ms)
    return any(ms not in (None, now) for ms, now in zip(given.values(), found, strict=True))


def _differs(body: OpenSession, state: SessionState) -> bool:
    """Return whether the body states settings or a dialect that differ from the session's."""
    dialect = state.dialect or None
    stated = {name: getattr(body, name) for name in SETTINGS}
    return body.dialect not in (None, dialect) or any(
        value is not None and value != getattr(state.settings, name) for name, value in stated.items()
    )


async def _project(gateway: Gateway, principal: Principal, session_id: str, asked: str | None) -> str | None:
    """Return the project to open in. A token that is bound to projects opens nowhere else."""
    if asked is None and len(principal.projects) == 1:
        asked = principal.projects[0]
    where = f"project `{asked}`" if asked else "a project of its own"
    if not principal.reaches(session_id, asked, principal.root_id):
        raise ForbiddenError(
            f"this token may not open session `{session_id}` in {where}",
            projects=list(principal.projects),
            sessions=list(principal.sessions),
        )
    if asked is not None and principal.claims_one and principal.root_id is not None:
        check_id(asked, "project id")
        claimed = principal.bounds.project or await gateway.tokens.claim(principal.root_id, asked)
        if claimed not in (None, asked):
            raise ForbiddenError(
                f"this token works in project `{claimed}`, the first in which it opened a session, and not in {where}; "
                "make a token for each project, or one with `token create --any-project`",
                projects=[claimed],
            )
    return asked


async def _rules(
    gateway: Gateway, principal: Principal, body: OpenSession, folder: str | None, *, is_new: bool
) -> dict[str, Any]:
    """Return the arguments of `Ledger.session` that set the rules."""
    if not principal.brings_rules:
        return await _gateways_rules(gateway, body.dialect, folder) if is_new else {}
    if body.policy is not None:
        if body.rules is not None or body.options is not None or body.dialect is not None:
            raise InputError("give `policy`, or `rules` with `dialect` and `options`, not both")
        return {"policy": given_policy(body.policy), "policy_source": _source_of(body)}
    dialect = body.dialect or DEFAULT_DIALECT
    if body.says_rules:
        return {"policy": _brought(body, dialect), "policy_source": _source_of(body)}
    if not is_new:
        return {"dialect": dialect}
    files, name = rules_for(gateway, folder, dialect)
    if files is not None:
        return {"policy": await files.current(), "dialect": dialect, "policy_source": name}
    # A child has the rules of its parent, which are not the gateway's to follow.
    return {"dialect": dialect, "policy_source": name if body.parent is None else None}


def _source_of(body: OpenSession) -> str:
    """Return the origin of the rules in the body, as the log has it; never one of the gateway's own names."""
    said = body.policy_source or "given"
    is_reserved = said == GATEWAYS_OWN or project_of_source(said) is not None
    return f"given {said}" if is_reserved else said


def _brought(body: OpenSession, dialect: str) -> PolicySource:
    """Return the rules in the body. Raises InputError."""
    source = policy_source_of(body.rules if body.rules is not None else [], dialect, body.options)
    assert source is not None, "rules were given"
    return msgspec.structs.replace(source, untrusted=body.rules_untrusted)


async def _gateways_rules(gateway: Gateway, stated: str | None, folder: str | None) -> dict[str, Any]:
    """Return the rules of the project of a folder in a dialect, or the gateway's own.

    A gateway without any asks about everything, as OpenCode's dialect does. A dialect without a file would be judged by
    its program's defaults, which may be looser than the files.
    """
    policies = gateway.settings.policies
    project = gateway.projects.file_of(folder)
    named = (gateway.projects.dialects(project) if project is not None else ()) or tuple(policies)
    usual = DEFAULT_DIALECT if not named or DEFAULT_DIALECT in named else named[0]
    dialect = stated or usual
    files, name = rules_for(gateway, folder, dialect)
    if files is not None:
        policy = await files.current()
    elif not policies and dialect == DEFAULT_DIALECT:
        policy = PolicySource(dialect)
    else:
        has = ", ".join(f"`{one}`" for one in named) or "none"
        raise RulesNotYoursError(
            f"this gateway has no rules of dialect `{dialect}` (it has {has}), and this token brings none; start it with "
            f"`serve --rules {dialect}=FILE`, or make a token with `token create --brings-rules`",
            dialects=list(named),
        )
    return {"policy": policy, "dialect": dialect, "policy_source": name, "denies_alone": True}
