"""A LangGraph agent whose tools ask the ledger. The model is scripted, so this runs without a network.

In a clone: pip install '.[langgraph]'; python examples/langgraph_tools.py
Answer in another terminal: permission-ledger pending; permission-ledger reply REQUEST once
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from ledger import Ledger, RejectedError
from ledger.guarding.langgraph import asks_ledger

RULES = [
    {"permission": "bash", "pattern": "*", "action": "ask"},
    {"permission": "bash", "pattern": "git status*", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]
COMMANDS = ("git status", "rm notes.txt", "git push")


@tool
async def bash(command: str) -> str:
    """Run a command line."""
    return f"ran {command}"


def script() -> Iterator[AIMessage]:
    """Return the scripted model's calls, each with the same id, as small models do."""
    for command in COMMANDS:
        yield AIMessage("", tool_calls=[{"name": "bash", "args": {"command": command}, "id": "call_0"}])
    yield AIMessage("done")


async def main() -> None:
    model = GenericFakeChatModel(messages=script())

    async def think(state: MessagesState) -> dict[str, list[AIMessage]]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async with Ledger.connect() as ledger:
        session = await ledger.session("langgraph-example", project="examples", rules=RULES, cwd=str(Path.cwd()))
        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode([bash], **asks_ledger(session, agent="langgraph")))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")
        try:
            async for update in graph.compile().astream({"messages": [("user", "go")]}, stream_mode="updates"):
                for message in update.get("tools", {}).get("messages", ()):
                    print(f"{message.status}: {message.content}", flush=True)
        except RejectedError as error:
            print(f"stopped: {error}")
        else:
            print("done")


if __name__ == "__main__":
    asyncio.run(main())
