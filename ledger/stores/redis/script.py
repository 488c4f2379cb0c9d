"""Lua scripts, stored in files beside this one and addressed on the server by their hash."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha1
from pathlib import Path

from ledger.stores.redis.link import Argument, CommandLine


class Script:
    """A Lua script by its hash. The hash is the version: old and new workers may use one server."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()

    @classmethod
    @lru_cache(None)
    def named(cls, name: str) -> Script:
        return cls(Path(__file__).with_name(name).read_text(encoding="utf-8"))

    def call(self, keys: Sequence[str], arguments: Sequence[Argument]) -> CommandLine:
        return ("EVALSHA", self.sha, len(keys), *keys, *arguments)
