"""Inputs of tool calls in shapes that no tool has: every view must show these too."""

from __future__ import annotations

from typing import Any

STRANGE: list[Any] = [
    {},
    {"command": 7},
    {"command": ["rm", 1]},
    {"command": ""},
    {"command": None, "cmd": {}},
    {"edits": [None, 3, {"old_string": 1, "new_string": []}]},
    {"edits": "all", "file_path": ["a"], "old_string": "", "new_string": ""},
    {"patch": 5, "content": {"a": 1}, "path": None},
    {"content": "", "file_path": "x"},
    {"url": {"href": "x"}},
    {"url": []},
    {"questions": [None]},
    {"questions": [{}]},
    {"questions": [{"question": "?", "options": None}]},
    {"questions": [{"question": "", "options": [None, 3, {"label": None}, {"label": {"a": 1}, "description": []}]}]},
    {"questions": "which?"},
    {"plan": ["a"]},
    {"plan": " "},
    {"description": 9, "command": "ls"},
    {"description": "only"},
    {"__proto__": "x", "constructor": "y", "toString": 1, "length": -1},
    {"deep": [[[[[[[[{"a": None}]]]]]]]], "flag": False, "zero": 0, "float": 1e300},
    {"text": "\x00\u2028\ud7ff\ufffe" * 9, "\u202ename": "x" * 5000},
]
