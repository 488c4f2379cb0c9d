"""An agent of the OpenAI Agents SDK whose tool asks the ledger. The model is scripted, so this runs without a network.

In a clone: pip install . openai-agents; python examples/openai_agents_tools.py
Answer in another terminal: permission-ledger pending; permission-ledger reply REQUEST once
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, UserError, function_tool, set_tracing_disabled
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from ledger import Ledger, RefusalError, Session
from ledger.guarding import asking, guarded

RULES = [
    {"permission": "bash", "pattern": "*", "action": "ask"},
    {"permission": "bash", "pattern": "git status*", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]
COMMANDS = ("git status", "rm notes.txt", "git push")


class Scripted(Model):
    """A model with scripted calls: one command after the other."""

    def __init__(self) -> None:
        self._said = 0

    async def get_response(self, *args: Any, **more: Any) -> ModelResponse:
        number, self._said = self._said, self._said + 1
        if number < len(COMMANDS):
            call = json.dumps({"command": COMMANDS[number]})
            said: Any = ResponseFunctionToolCall(
                type="function_call", name="bash", call_id=f"call_{number}", arguments=call
            )
        else:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            said = ResponseOutputMessage(
                type="message", id="msg_1", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("this example does not stream")


@guarded("bash")
async def run(command: str) -> str:
    return f"ran {command}"


@function_tool(failure_error_function=None)
async def bash(ctx: ToolContext[Session], command: str) -> str:
    """Run a command line."""
    try:
        # Without a request id each call is a request of its own: a model's call ids may repeat.
        with asking(ctx.context, metadata={"call_id": ctx.tool_call_id}, agent="openai-agents"):
            told = f"success: {await run(command)}"
    except RefusalError as error:
        if error.agent == "stop":
            raise
        told = f"error: {error}"
    print(told, flush=True)
    return told


async def main() -> None:
    set_tracing_disabled(disabled=True)
    agent = Agent[Session](name="coder", model=Scripted(), tools=[bash])
    async with Ledger.connect() as ledger:
        session = await ledger.session("openai-agents-example", project="examples", rules=RULES, cwd=str(Path.cwd()))
        try:
            print((await Runner.run(agent, "go", context=session)).final_output)
        except UserError as error:
            # The SDK wraps the errors of a tool.
            if not isinstance(error.__cause__, RefusalError):
                raise
            print(f"stopped: {error.__cause__}")


if __name__ == "__main__":
    asyncio.run(main())
