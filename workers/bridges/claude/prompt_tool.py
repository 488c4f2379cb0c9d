"""The MCP server on stdio behind `claude -p --permission-prompt-tool mcp__ledger__approve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workers.bridges.claude import protocol
from workers.bridges.options import BridgeOptions, check_rules
from workers.bridges.session_ids import id_of, new_id
from workers.bridges.startup import announce
from workers.bridges.stdio import tell
from workers.bridges.tool_calls import CallVerdict, GatewayJudge, ToolCall
from workers.transport.gateway_client import GatewayClient

SERVER = "ledger"
TOOL = "approve"


async def serve(options: BridgeOptions) -> None:
    """Answer until the client closes our stdin. Raises ImportError without the package `mcp`."""
    from mcp.server import MCPServer  # noqa: PLC0415 - slow to import, and an extra

    check_rules(options)
    cwd = str(Path.cwd())
    async with GatewayClient(grace=options.grace, tell=tell) as client:
        await announce(client, options)
        judge = GatewayJudge(client, options, options.session or new_id("claude"), agent=protocol.AGENT, cwd=cwd)
        server = MCPServer(SERVER, log_level="WARNING")

        async def approve(tool_name: str, input: dict[str, Any], tool_use_id: str | None = None) -> str:  # noqa: A002 - the client's own name
            """Ask the permission ledger whether a tool call may run."""
            call_id = id_of(tool_use_id) if tool_use_id else new_id("call")
            call = ToolCall(call_id, tool_name, input, call_id=call_id, cwd=cwd, keeps_id=False)
            return answer(input, await judge.judge_or_withdraw(call))

        server.add_tool(approve, name=TOOL, structured_output=False)
        await server.run_stdio_async()
        # The end of our stdin means that the client has ended: pending questions are cancelled.
        await judge.left()
        await judge.claims.agent_ended()


def answer(tool_input: dict[str, Any], verdict: CallVerdict) -> str:
    """Return the client's form of a verdict. No other prompt is left to ask, so all but an allow is a deny."""
    if verdict.behaviour == "allow":
        runs = tool_input if verdict.updated_input is None else verdict.updated_input
        return json.dumps({"behavior": "allow", "updatedInput": runs})
    return json.dumps({"behavior": "deny", "message": verdict.message})
