"""A Pydantic AI agent whose tool asks the ledger. The model is scripted, so this runs without a network.

In a clone: pip install . pydantic-ai-slim; python examples/pydantic_ai_tools.py
Answer in another terminal: permission-ledger pending; permission-ledger reply REQUEST once
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ledger import Ledger, RefusalError, Session
from ledger.guarding import asking, guarded

RULES = [
    {"permission": "bash", "pattern": "*", "action": "ask"},
    {"permission": "bash", "pattern": "git status*", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]
COMMANDS = ("git status", "rm notes.txt", "git push")


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Return the scripted model's next call: one command after the other."""
    said = sum(isinstance(message, ModelResponse) for message in messages)
    if said < len(COMMANDS):
        return ModelResponse(parts=[ToolCallPart("bash", {"command": COMMANDS[said]})])
    return ModelResponse(parts=[TextPart("done")])


@guarded("bash")
async def run(command: str) -> str:
    return f"ran {command}"


agent = Agent(FunctionModel(scripted), deps_type=Session)


@agent.tool
async def bash(ctx: RunContext[Session], command: str) -> str:
    """Run a command line."""
    try:
        with asking(ctx.deps, request_id=f"{ctx.run_id}.{ctx.tool_call_id}", agent="pydantic-ai"):
            told = f"success: {await run(command)}"
    except RefusalError as error:
        if error.agent == "stop":
            raise
        told = f"error: {error}"
    print(told, flush=True)
    return told


async def main() -> None:
    async with Ledger.connect() as ledger:
        session = await ledger.session("pydantic-ai-example", project="examples", rules=RULES, cwd=str(Path.cwd()))
        try:
            print((await agent.run("go", deps=session)).output)
        except RefusalError as error:
            print(f"stopped: {error}")


if __name__ == "__main__":
    asyncio.run(main())
