"""Presence of people, in a session or in the inbox; and the input lock.

A page renews its presence while it is visible and was used in the last minutes; an open event stream alone does not.
"""

from __future__ import annotations

from litestar import delete, post, put
from litestar.params import JSONBody

from ledger.session.decision import records_clients
from workers.gateway.bodies import LockBody, PassLockBody
from workers.gateway.descriptions import Row, described
from workers.gateway.gateway import Id, TheGateway, ThePrincipal
from workers.gateway.presence import require_own_client


@put("/v1/sessions/{session:str}/clients/{client:str}", operation_id="connect_client")
async def connect_client(session: Id, client: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Connect to a session or stay connected: repeat it every 10 s. The first call replays pending requests."""
    found = await gateway.session(session, principal)
    replayed = await gateway.presences.in_session(found, principal, client)
    return {
        "lock": found.stream.state.lock if records_clients(found.stream.state) else None,
        "replayed": [described(one) for one in replayed],
    }


@delete("/v1/sessions/{session:str}/clients/{client:str}", operation_id="disconnect_client")
async def disconnect_client(session: Id, client: Id, gateway: TheGateway, principal: ThePrincipal) -> None:
    """Disconnect from a session."""
    found = await gateway.session(session, principal)
    await gateway.presences.leave_session(found, principal, client)


@post("/v1/sessions/{session:str}/lock", status_code=200, operation_id="take_lock")
async def take_lock(session: Id, data: JSONBody[LockBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Take the input lock. If another client holds it, request it: it passes after 10 s."""
    found = await gateway.session(session, principal, fresh=True)
    await require_own_client(found, principal, data.client_id)
    held = await found.take_lock(data.client_id, actor=principal.actor)
    return {"held": held, "lock": found.stream.state.lock}


@post("/v1/sessions/{session:str}/lock/pass", status_code=200, operation_id="pass_lock")
async def pass_lock(session: Id, data: JSONBody[PassLockBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Hand the input lock to another client."""
    found = await gateway.session(session, principal, fresh=True)
    await require_own_client(found, principal, data.client_id)
    await found.pass_lock(data.client_id, data.to, actor=principal.actor)
    return {"lock": found.stream.state.lock}


@put("/v1/clients/{client:str}", operation_id="open_inbox")
async def open_inbox(client: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Connect to the inbox or stay connected, present in every session: repeat it every 10 s."""
    replayed = await gateway.presences.in_inbox(principal, client)
    return {"replayed": [described(one) for one in replayed]}


@delete("/v1/clients/{client:str}", operation_id="leave_inbox")
async def leave_inbox(client: Id, gateway: TheGateway, principal: ThePrincipal) -> None:
    """Disconnect from the inbox."""
    await gateway.presences.leave_inbox(principal, client)
