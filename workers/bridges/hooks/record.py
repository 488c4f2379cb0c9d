"""The record of an answer that was given at Claude Code's own prompt."""

from __future__ import annotations

from workers.bridges.hooks.exchange import call, quoted
from workers.bridges.hooks.terminal import PROMPT
from workers.transport.errors import BridgeError, GatewayRefusalError

FORBIDDEN = (401, 403)


def record(path: str, request_id: str, reply: str, words: str = "") -> bool:
    """Record `once` or `reject`; return whether the ledger has it. `path` is the session's.

    A token that may not record answers withdraws the request instead, with the answer as the reason.
    """
    about = f"{path}/asks/{quoted(request_id)}"
    said = {"reply": reply, "prompt": PROMPT, **({"message": words} if words else {})}
    try:
        try:
            call("POST", f"{about}/answered", said, 0, watched=False)
        except GatewayRefusalError as error:
            if error.status not in FORBIDDEN:
                raise
            reason = f"answered at the agent's own prompt: {reply}"
            call("POST", f"{about}/cancel", {"cause": "withdrawn", "reason": reason}, 0, watched=False)
    except GatewayRefusalError:
        return True  # another answer was first, and stands in the log
    except BridgeError:
        return False
    return True
