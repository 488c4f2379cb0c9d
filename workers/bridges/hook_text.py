"""Our hooks in the text of an agent's settings: added and removed, every other character unchanged. No I/O."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from ledger.policy.json_edit import Edit, Insertion, appending, applied, comments_in, without
from ledger.policy.jsonc import Document, parse, pointer
from workers.bridges.hook_entries import Entries, Settings, is_ours, with_entries, without_entries

_MARK: Final = "\ufeff"
"""The byte order mark that some editors write first; it is no part of the JSON."""


class Installed(NamedTuple):
    """A text with hooks of ours, and the edits that made it; their `at` is a place in the text before."""

    text: str
    edits: tuple[Edit, ...]


def read(text: str, *, comments: bool) -> Settings:
    """Return the settings in a text; empty for a blank one. Raises JsonSyntaxError, and TypeError for a non-object."""
    body = text.removeprefix(_MARK)
    if not body.strip():
        return {}
    value = parse(body, comments=comments).value
    if not isinstance(value, dict):
        raise TypeError
    return value


def installed(text: str, agent: str, entries: Entries) -> Installed:
    """Return a text without hooks of ours, with these added. Raises BridgeError for settings of another form."""
    body = text.removeprefix(_MARK)
    mark = len(text) - len(body)
    if not body.strip():
        whole = json.dumps({"hooks": entries}, indent=2, ensure_ascii=False) + "\n"
        edits = [Edit(len(body), "", whole)]
        wanted = {"hooks": entries}
    else:
        document = parse(body, comments=True)
        edits = _edits(body, document, entries)
        wanted = with_entries(document.value, agent, entries)
    after = applied(body, edits)
    assert parse(after, comments=True).value == wanted
    return Installed(text[:mark] + after, tuple(edit._replace(at=edit.at + mark) for edit in edits))


def removed(text: str, agent: str) -> str:
    """Return the text without our hooks, and without what becomes empty. Raises BridgeError."""
    body = text.removeprefix(_MARK)
    mark = text[: len(text) - len(body)]
    wanted = without_entries(_value(body), agent)
    while (where := _first_of_ours(body, agent)) is not None:
        body = without(body, where)
    assert essence(_value(body)) == essence(wanted)
    return mark + body


def essence(settings: Settings) -> Settings:
    """Return the settings without empty lists of hooks, which mean nothing."""
    hooks = {event: found for event, found in (settings.get("hooks") or {}).items() if found != []}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**rest, "hooks": hooks} if hooks else rest


def is_blank(text: str) -> bool:
    """Return whether a text holds an empty object and nothing else, not even a comment."""
    return "".join(text.removeprefix(_MARK).split()) in ("", "{}")


def _value(body: str) -> Any:
    return parse(body, comments=True).value if body.strip() else {}


def _edits(body: str, document: Document, entries: Entries) -> list[Edit]:
    hooks = document.value.get("hooks")
    if hooks is None:
        return [appending(body, document, "", [Insertion("hooks", entries)])]
    there = {event: ours for event, ours in entries.items() if event in hooks}
    edits = [
        appending(body, document, pointer("hooks", event), [Insertion(None, one) for one in ours])
        for event, ours in there.items()
    ]
    new = [Insertion(event, ours) for event, ours in entries.items() if event not in there]
    return [*edits, appending(body, document, "/hooks", new)] if new else edits


def _first_of_ours(body: str, agent: str) -> str | None:
    """Return the pointer of the largest value that holds a hook of ours and nothing else, no foreign comment either."""
    if not body.strip():
        return None
    document = parse(body, comments=True)
    hooks = document.value.get("hooks")
    lists = {event: found for event, found in (hooks or {}).items() if isinstance(found, list)}
    for event, entries in lists.items():
        for at, entry in enumerate(entries):
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            ours = [i for i, hook in enumerate(inner) if is_ours(hook, agent)] if isinstance(inner, list) else []
            if not ours or not isinstance(inner, list):
                continue
            if len(ours) < len(inner):
                return pointer("hooks", event, at, "hooks", ours[0])
            alone = [len(entries) == 1, len(hooks) == 1]
            return _largest(body, document, [pointer("hooks", event, at), pointer("hooks", event), "/hooks"], alone)
    return None


def _largest(body: str, document: Document, values: list[str], alone: list[bool]) -> str:
    """Return the outermost of nested values that holds nothing but the value before it."""
    found, *outer = values
    entry = document.places[found]
    for where, is_alone in zip(outer, alone, strict=True):
        place = document.places[where]
        if not is_alone or comments_in(body[place.start : entry.start] + body[entry.end : place.end]):
            break
        found = where
    return found
