"""What would run, as a person can judge it on a page without scripts. Nothing that the answer counts for is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any, Final

from ledger.session.state import Request
from ledger.would_run import would_run
from workers.gateway.answers.revealing import lines, text, warning

BRIEF_CHARS: Final = 60
DIFF_LINES_MAX: Final = 2000
"""A longer text is shown as it was before and as it is to become: comparing takes time."""

_REPLACED: Final = (("old_string", "new_string"), ("oldString", "newString"))


def what_runs(request: Request) -> str:
    """The command, plan or question itself, whatever of it was judged under another name, and every other member."""
    parts = list(_of_input(request)) if isinstance(request.input, Mapping) else _without_input(request)
    if request.input is not None and not isinstance(request.input, Mapping):
        parts.append(block(_json(request.input)))
    diff = request.metadata.get("diff")
    if isinstance(diff, str):
        parts.append(_difference(diff.split("\n")))
    rest = {key: value for key, value in request.metadata.items() if key != "diff" or not isinstance(diff, str)}
    if rest:
        parts.append(f"<details><summary>More about it</summary>{block(_json(rest))}</details>")
    return warning(_texts([request.patterns, request.input, request.metadata])) + "".join(parts)


def _texts(value: Any) -> Iterator[str]:
    """Every text in what was asked, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield str(name)
            yield from _texts(member)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def block(value: str) -> str:
    """Lines stay lines."""
    return f"<pre>{lines(value)}</pre>"


def _of_input(request: Request) -> Iterator[str]:
    given = dict(request.input)
    command = given.pop("command", None)
    if isinstance(command, str):
        said = given.pop("description", None)
        if isinstance(said, str) and said:
            yield f"<p><i>“{text(said)}”</i></p>"
        yield block(command)
        yield from _patterns(request, command)
    elif command is not None:
        given["command"] = command
    else:
        yield from (one for one in _patterns(request, "") if not given or request.patterns != (request.permission,))
    for before, after in _REPLACED:
        if isinstance(given.get(before), str) and isinstance(given.get(after), str):
            yield _change(given.pop(before), given.pop(after))
    if is_question(request):
        yield from (_question(one) for one in given.pop("questions"))
    yield from (_member(name, value) for name, value in given.items() if value not in request.patterns)


def is_question(request: Request) -> bool:
    """Whether a person is to choose something, and not to let something run."""
    asked = request.input.get("questions") if isinstance(request.input, Mapping) else None
    return request.tool_name is not None and isinstance(asked, list) and bool(asked)


def is_plan(request: Request) -> bool:
    """Whether it is a plan to begin with, which nobody approves once and for all."""
    return isinstance(request.input, Mapping) and isinstance(request.input.get("plan"), str)


def _question(asked: Any) -> str:
    options = asked.get("options", []) if isinstance(asked, Mapping) else None
    if options is None or not isinstance(options, list) or not all(isinstance(one, Mapping) for one in options):
        return block(_json(asked))
    rows = (
        f"<li>{text(str(one.get('label')))}<small>{text(str(one.get('description') or ''))}</small></li>"
        for one in options
    )
    return f"<p><b>{text(str(asked.get('question')))}</b></p><ul>{''.join(rows)}</ul>"


def _without_input(request: Request) -> list[str]:
    """The description of what was asked by patterns, or by a name alone."""
    return [block(one) for one in would_run(request).texts]


def _patterns(request: Request, shown: str) -> list[str]:
    """What was judged, where it is not seen already."""
    return [block(pattern) for pattern in request.patterns if pattern not in shown]


def _member(name: str, value: Any) -> str:
    written = value if isinstance(value, str) else _json(value)
    if len(written) <= BRIEF_CHARS and "\n" not in written:
        return f"<p><b>{text(name)}</b> <code>{text(written)}</code></p>"
    return f"<p><b>{text(name)}</b></p>{block(written)}"


def _change(before: str, after: str) -> str:
    old, new = before.split("\n"), after.split("\n")
    if len(old) + len(new) > DIFF_LINES_MAX:
        return f"<p><b>before</b></p>{block(before)}<p><b>after</b></p>{block(after)}"
    return _difference(list(unified_diff(old, new, lineterm="", n=3))[3:])


def _difference(changed: list[str]) -> str:
    kinds = {"+": "came", "-": "gone"}
    rows = (f'<span class="{kinds.get(line[:1], "same")}">{lines(line)}</span>' for line in changed)
    return f'<pre class="diff">{"".join(rows)}</pre>'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
