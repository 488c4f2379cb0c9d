"""A program on the real claude-agent-sdk whose tool calls ask the ledger: started by tests/agents/test_claude_sdk.py.

Its one argument is JSON: `cli`, the client to run, and `options` of `ledger_can_use_tool`. A line on stdin interrupts the
turn. It prints how the turn ended.
"""

from __future__ import annotations

import asyncio
import json
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from workers.bridges.claude.sdk import ledger_can_use_tool


async def main() -> None:
    said = json.loads(sys.argv[1])
    options = ClaudeAgentOptions(cli_path=said["cli"], can_use_tool=ledger_can_use_tool(**said["options"]))
    async with ClaudeSDKClient(options) as client:
        await client.query("do the work")
        interrupting = asyncio.create_task(_interrupted(client))
        async for message in client.receive_response():
            if isinstance(message, ResultMessage):
                sys.stdout.write(f"{message.subtype}\n")
                sys.stdout.flush()
        await interrupting


async def _interrupted(client: ClaudeSDKClient) -> None:
    if await asyncio.to_thread(sys.stdin.readline):
        await client.interrupt()


if __name__ == "__main__":
    asyncio.run(main())
