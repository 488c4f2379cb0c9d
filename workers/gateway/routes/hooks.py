"""The hook of Claude Code over HTTP: the events that `hook claude` answers, without a process for each call."""

from __future__ import annotations

import asyncio
import shlex
from functools import partial
from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.params import JSONBody

from ledger.core.errors import InputError
from workers.bridges.hook_entries import ENTRYPOINT_HEADER, OPTIONS_HEADER
from workers.bridges.hooks import claude
from workers.bridges.hooks.settings import HookSettings
from workers.gateway.bodies import ClaudeEvent
from workers.gateway.descriptions import Row
from workers.gateway.gateway import TheGateway, ThePrincipal
from workers.gateway.hooks import ServedHook
from workers.gateway.own_rules import rules_for
from workers.gateway.principals import ForbiddenError, Principal
from workers.transport.place import BridgeError


@get("/v1/hooks/claude", operation_id="read_claude_hook")
async def read_claude_hook(gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the reach of the hook's token, and whether rules of Claude Code judge in the first of its folders."""
    folders = _folders(principal)
    files, _ = rules_for(gateway, folders[0], "claude")
    return {
        "token_id": principal.token_id,
        "projects": list(principal.projects),
        "folders": list(folders),
        "has_rules": files is not None,
    }


@post("/v1/hooks/claude", status_code=200, operation_id="claude_hook")
async def claude_hook(
    data: JSONBody[ClaudeEvent], gateway: TheGateway, principal: ThePrincipal, request: Request[Any, Any, Any]
) -> Row:
    """Answer one event of a hook of type `http` in Claude Code's settings, as `hook claude` does; `{}` is no opinion.

    The token names the folders of the project and of its transcripts, and brings no rules. The header
    `Permission-Ledger-Hook` has the options of the command, `Permission-Ledger-Entrypoint` how the client was started.
    """
    served = ServedHook(
        request.app, request.scope, _folders(principal), request.headers.get(ENTRYPOINT_HEADER), gateway.stopping
    )
    settings = _settings(request.headers.get(OPTIONS_HEADER, ""))
    settings.process = served
    leaving = asyncio.create_task(served.leave_with(request.receive), name="watch the client of a hook")
    try:
        said = await gateway.hooks.run(partial(claude.answered, msgspec.to_builtins(data), settings))
    except BridgeError as error:
        raise InputError(error.text) from error
    finally:
        leaving.cancel()
    return said or {}


def _folders(principal: Principal) -> tuple[str, ...]:
    if not principal.folders or principal.brings_rules:
        raise ForbiddenError(
            "a hook over HTTP has a token of its own, which names its folders and brings no rules; "
            "`bridge claude --install --http` makes it"
        )
    return principal.folders


def _settings(options: str) -> HookSettings:
    try:
        settings = HookSettings.read(shlex.split(options), "claude")
    except (BridgeError, ValueError) as error:
        raise InputError(f"`{OPTIONS_HEADER}`: {error}") from error
    if settings.rules is not None:
        raise InputError(f"`{OPTIONS_HEADER}` names rules; the gateway's own judge, or those of the trusted project")
    return settings
