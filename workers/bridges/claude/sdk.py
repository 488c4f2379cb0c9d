"""The permission callback for programs that run Claude Code through claude-agent-sdk.

`options = ClaudeAgentOptions(can_use_tool=ledger_can_use_tool(project="shop"))`

The SDK passes its own request on, so the same rules, people and records apply as behind `bridge claude`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from workers.bridges.claude import protocol
from workers.bridges.claude.protocol import Permission
from workers.bridges.options import BridgeOptions, OnUnreachable
from workers.bridges.session_ids import new_id
from workers.bridges.tool_calls import GatewayJudge
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import GRACE_SECONDS

CanUseTool = Callable[[str, dict[str, Any], Any], Awaitable[Any]]


def ledger_can_use_tool(
    *,
    session: str | None = None,
    project: str | None = None,
    rules: str | None = None,
    cwd: str | None = None,
    grace: float = GRACE_SECONDS,
    interrupt: bool = False,
    share_grants: bool = False,
    on_unreachable: OnUnreachable = "deny",
    profile: Literal["hardened", "faithful"] | None = None,
    otherwise: CanUseTool | None = None,
) -> LedgerCallback:
    """Return a `can_use_tool` for `ClaudeAgentOptions`.

    `session` is the ledger's (default: a new one), `rules` a file, `profile` that of its rules (default: `hardened`),
    `grace` the seconds that a gateway may be away. With `on_unreachable="agent"` the callback `otherwise` decides when
    the gateway cannot be reached; without `otherwise` that is a deny. `interrupt` ends the turn if the ledger says that
    the agent should stop. With `share_grants` the client gets a person's grants and asks no more about them, not even
    after a grant is revoked. Call it inside a running loop, or before one. It keeps its connections until `close`.
    Raises MissingExtraError without claude-agent-sdk.
    """
    from ledger.core.extras import require_extra  # noqa: PLC0415 - other bridges never import the ledger

    require_extra("claude-sdk")
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny  # noqa: PLC0415 - an extra

    cwd = os.getcwd() if cwd is None else cwd  # noqa: PTH109 - as the client that the SDK starts does
    options = BridgeOptions(
        session=session, project=project, rules=rules, on_unreachable=on_unreachable, grace=grace, profile=profile
    )
    client = GatewayClient(grace=grace)
    judge = GatewayJudge(client, options, session or new_id("claude"), agent=protocol.AGENT, cwd=cwd)

    async def can_use_tool(tool_name: str, tool_input: dict[str, Any], context: Any) -> Any:
        permission = _permission(tool_name, tool_input, context)
        agent_id = permission.request.get("agent_id")
        agent, parent = (f"agent {agent_id}", protocol.AGENT) if agent_id else (protocol.AGENT, None)
        call = protocol.call_of(permission, agent=agent, parent=parent, cwd=cwd)
        # The SDK cancels the callback when the client needs no answer any more.
        verdict = await judge.judge_or_withdraw(call)
        if verdict.behaviour == "agent" and otherwise is not None:
            return await otherwise(tool_name, tool_input, context)
        if verdict.behaviour == "allow":
            changed = tool_input if verdict.updated_input is None else verdict.updated_input
            granted = protocol.to_share(verdict) if share_grants else ()
            return PermissionResultAllow(updated_input=changed, **_remembered(granted))
        return PermissionResultDeny(message=verdict.message, interrupt=interrupt and verdict.stops_agent)

    return LedgerCallback(can_use_tool, client)


class LedgerCallback:
    """The callback, and the connections that it keeps between calls."""

    def __init__(self, ask: CanUseTool, client: GatewayClient) -> None:
        self._ask = ask
        self._client = client

    async def __call__(self, tool_name: str, tool_input: dict[str, Any], context: Any) -> Any:
        return await self._ask(tool_name, tool_input, context)

    async def close(self) -> None:
        """Close the connections to the gateway. A later call opens new ones."""
        await self._client.close()


def _remembered(granted: tuple[str, ...]) -> dict[str, Any]:
    if not granted:
        return {}
    from claude_agent_sdk.types import PermissionRuleValue, PermissionUpdate  # noqa: PLC0415 - an extra

    said = [protocol.rule_of(text) for text in granted]
    rules = [PermissionRuleValue(tool_name=one["toolName"], rule_content=one.get("ruleContent")) for one in said]
    update = PermissionUpdate(type="addRules", rules=rules, behavior="allow", destination="session")
    return {"updated_permissions": [update]}


def _permission(tool_name: str, tool_input: dict[str, Any], context: Any) -> Permission:
    """Return the SDK's request as the client sent it; older versions of the SDK carry fewer members."""
    call_id = getattr(context, "tool_use_id", None) or new_id("call")
    given = getattr(context, "suggestions", None) or ()
    suggestions = [one.to_dict() if hasattr(one, "to_dict") else one for one in given]
    request = {"permission_suggestions": suggestions or None}
    for name in ("agent_id", "blocked_path", "decision_reason", "title", "description"):
        request[name] = getattr(context, name, None)
    return Permission(call_id, call_id, tool_name, tool_input, request)
