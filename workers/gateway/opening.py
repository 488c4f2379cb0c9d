"""A session opened over the gateway: by whose rules it is judged."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import to_builtins

from ledger import Session, Timeouts
from ledger.errors import InputError
from ledger.ids import check_id
from ledger.policy.model import PolicySource
from ledger.session.state import SessionState
from workers.gateway.bodies import DIALECT_DEFAULT, OpenSession
from workers.gateway.gateway import Gateway
from workers.gateway.own_rules import GATEWAYS_OWN
from workers.gateway.principals import ForbiddenError, Principal


class RulesNotYoursError(ForbiddenError):
    """An agent that may not bring rules tries to say by which it is judged."""

    code = "RULES_NOT_YOURS"


async def open_session(
    gateway: Gateway, principal: Principal, session_id: str, body: OpenSession
) -> tuple[Session, bool]:
    """Open or attach; whether it was opened by this. Raises ForbiddenError, InputError, UnknownSessionError."""
    check_id(session_id, "session id")
    state = await Session(gateway.ledger, session_id).state()
    is_new = state.opened_ms is None
    if not is_new:
        gateway.require_reach(principal, state)
    stands = gateway.settings.timeouts if is_new else Timeouts.of(state.settings)
    timeouts = stands if body.timeouts is None else stands.stated(to_builtins(body.timeouts), "timeouts.{}")
    if is_new or not principal.brings_rules:
        changes = body.says_settings or body.dialect is not None or timeouts != stands
        _require_own_rules(principal, body, may_set=is_new or not changes)
    project = _project(principal, session_id, body.project, state)
    if body.parent is not None:
        await gateway.session(body.parent, principal)
    if is_new:
        gateway.holdings.open_session(principal.caller)
    await gateway.rehearsals.rules(principal.caller, body)
    session = await gateway.ledger.session(
        session_id,
        project=project,
        **await _rules(gateway, body, is_new=is_new),
        timeouts=timeouts if is_new or timeouts != stands else None,
        cascade_reject=body.cascade_reject,
        cascade_always=body.cascade_always,
        answering=body.answering,
        on_denied=body.on_denied,
        when_abandoned=body.when_abandoned,
        late_denies=body.late_denies,
        agent=body.agent,
        parent=body.parent,
        cwd=body.cwd,
        # Whoever names the home says what rules about `~` mean.
        home=body.home if principal.brings_rules else None,
        actor=principal.actor,
    )
    if body.rules_digest is not None and body.says_rules:
        gateway.brought.note(session.stream.state, body.rules_digest)
    return session, is_new


def _require_own_rules(principal: Principal, body: OpenSession, *, may_set: bool) -> None:
    """An agent that could loosen the rules it is judged by would approve itself."""
    if principal.brings_rules:
        return
    if body.says_rules or body.late_denies is not None:
        raise RulesNotYoursError(
            "this token brings no rules: the gateway's own judge (`serve --rules`), "
            "or make a token with `token create --brings-rules`"
        )
    if not may_set:
        raise RulesNotYoursError(
            "this token may say how long requests wait, and the dialect, only when it opens a session"
        )


def _project(principal: Principal, session_id: str, asked: str | None, state: SessionState) -> str | None:
    """The project to open in. A token that is bound to projects opens nowhere else."""
    if state.opened_ms is not None:
        return asked
    if asked is None and len(principal.projects) == 1:
        asked = principal.projects[0]
    if not principal.reaches(session_id, asked):
        where = f"project `{asked}`" if asked else "a project of its own"
        raise ForbiddenError(
            f"this token may not open session `{session_id}` in {where}",
            projects=list(principal.projects),
            sessions=list(principal.sessions),
        )
    return asked


async def _rules(gateway: Gateway, body: OpenSession, *, is_new: bool) -> dict[str, Any]:
    """The arguments of `Ledger.session` that say how calls are judged."""
    if body.policy is not None:
        if body.rules is not None or body.options is not None or body.dialect is not None:
            raise InputError("give `policy`, or `rules` with `dialect` and `options`, not both")
        return {"policy": _policy(body.policy), "policy_source": body.policy_source or "given"}
    dialect = body.dialect or DIALECT_DEFAULT
    if body.says_rules:
        source = {"rules": body.rules if body.rules is not None else [], "dialect": dialect, "options": body.options}
        return {**source, "policy_source": body.policy_source or "given"}
    own = gateway.settings.policies.get(dialect)
    if is_new and own is not None:
        return {"policy": await own.current(), "dialect": dialect, "policy_source": GATEWAYS_OWN}
    return {"dialect": dialect}


def _policy(value: dict[str, Any]) -> PolicySource:
    try:
        return msgspec.convert(value, PolicySource)
    except msgspec.ValidationError as error:
        raise InputError(f"the policy is not of the form `{{dialect, layers, options}}`: {error}") from error
