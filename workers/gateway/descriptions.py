"""Descriptions of requests as they are served: made once and cached within a size limit.

A description of a long call takes tens of milliseconds, and the same requests are shown again and again. It depends on
the request alone. An entry is found by the request's place in the log. A plan is served as a small tree of allowed nodes,
so that nothing of what a person allows is hidden: no HTML, no image is loaded, a link shows its address.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import islice
from operator import attrgetter, is_
from typing import Any, Final, Literal

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ledger import Ledger
from ledger.client.results import Pending, Result, pending_of, result_of
from ledger.log.fold_cache import cache_bytes
from ledger.policy.demands import PASSKEY
from ledger.policy.shell.facts import DangerKind
from ledger.session.approvals import demanded
from ledger.session.decision import records_clients
from ledger.session.signed_claims import always_scope
from ledger.session.state import Request, SessionState
from ledger.session.texts import decider_of
from ledger.session.would_run import LINE_CHARS, cut, would_run
from ledger.session.would_run.description import describe_request
from ledger.session.would_run.members import one_line
from projections.sessions import summary_of
from workers.presentation.labels import DANGERS
from workers.presentation.moments import online

PLAN_CHARS_MAX: Final = 20_000
"""A longer plan is shown as it was written."""

NODES_MAX: Final = 5000

MARKS: Final = "[*_`<!\\\n"
MARKS_MAX: Final = 4000
"""The characters at which the parser looks for a node; each takes time of the gateway's loop, and an agent writes them."""

KEPT_COUNT: Final = 512
"""Trees that are kept, encoded: more than one token may have pending. Where each list parsed them anew, nobody could answer."""

CALL_CHARS: Final = 80
"""Characters of a call among the last ones of a session."""

Row = dict[str, Any]

Node = dict[str, Any] | str
"""A text, or `{"tag", "children"}`; a link has its `href`, an item of a numbered list its `number`, code its `info`."""

_TAGS: Final = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "em", "strong"})
_MEANT: Final = {"softbreak": "\n", "hardbreak": "\n"}

_PARSER: Final = MarkdownIt("commonmark", {"html": False}).disable(["reference", "image", "entity", "html_block"])
"""Reference definitions and entities would hide text; an image is a link with `!` before it."""


def plan_tree(request: Request) -> msgspec.Raw | None:
    """Return the tree of a request's plan as JSON; None without one, and where the tree would not show all of it."""
    plan = request.input.get("plan") if request.tool_name and isinstance(request.input, dict) else None
    if not isinstance(plan, str) or not plan.strip() or len(plan) > PLAN_CHARS_MAX:
        return None
    return _encoded_tree(plan)


@lru_cache(KEPT_COUNT)
def _encoded_tree(plan: str) -> msgspec.Raw | None:
    tree = markdown_tree(plan)
    return None if tree is None else msgspec.Raw(msgspec.json.encode(tree))


def markdown_tree(text: str) -> list[Node] | None:
    """Return the nodes of a Markdown text; None where they would lack a letter or a digit of it, or are too many."""
    if sum(map(text.count, MARKS)) > MARKS_MAX:
        return None
    try:
        tree = _nodes(_PARSER.parse(text))
    except (ValueError, RecursionError):
        return None
    shown = "".join(one for said in _said(tree) for one in said if one.isalnum())
    return tree if shown == "".join(one for one in text if one.isalnum()) else None


def _nodes(tokens: Sequence[Token]) -> list[Node]:
    """Return the tree of a flat list of tokens, in which each opening one has its closing one. Raises ValueError where it would hide some."""
    root: list[Node] = []
    open_ones: list[list[Node]] = [root]
    if len(tokens) > NODES_MAX:
        raise ValueError("too many nodes")
    for token in tokens:
        if token.nesting < 0:
            open_ones.pop()
        elif token.nesting > 0:
            node = _opened(token)
            open_ones[-1].append(node)
            open_ones.append(node["children"])
        else:
            open_ones[-1] += _leaf(token)
    return root


def _opened(token: Token) -> dict[str, Any]:
    children: list[Node] = []
    if token.type == "link_open":
        if token.attrs.get("title"):
            raise ValueError("a title is not drawn")
        return {
            "tag": "link",
            "href": "" if token.markup == "autolink" else str(token.attrs["href"]),
            "children": children,
        }
    if token.tag not in _TAGS:
        raise ValueError(f"no node is allowed for `{token.tag}`")
    number = {"number": token.info} if token.tag == "li" and token.info else {}
    return {"tag": token.tag, **number, "children": children}


def _leaf(token: Token) -> list[Node]:
    match token.type:
        case "inline":
            return _nodes(token.children or [])
        case "text" | "text_special":
            return [token.content] if token.content else []
        case "code_inline":
            return [{"tag": "code", "children": [token.content]}]
        case "fence" | "code_block":
            return [{"tag": "pre", "info": token.info.strip(), "children": [token.content.removesuffix("\n")]}]
        case "hr":
            return [{"tag": "hr", "children": []}]
        case kind if kind in _MEANT:
            return [_MEANT[kind]]
        case _:
            raise ValueError(f"no node is allowed for `{token.type}`")


def _said(nodes: Sequence[Node]) -> Iterator[str]:
    """Iterate over the texts of a tree in the order in which the plan has them."""
    for node in nodes:
        if isinstance(node, str):
            yield node
        else:
            yield node.get("number") or node.get("info") or ""
            yield from _said(node["children"])
            yield node.get("href") or ""


OF_EACH_BYTES: Final = 1024
"""Size of a cache entry besides its text."""

_MOVING: Final = frozenset({"tier", "duration_ms", "deadline_ms", "unattended_ms", "cap_at_ms", "present"})
"""Fields of a request that change while it waits, and that no description contains."""

_values_of: Final = attrgetter(*(name for name in Request.__struct_fields__ if name not in _MOVING))
"""Returns what a description is made of."""


class _Kept(msgspec.Struct, frozen=True, gc=False):
    values: tuple[Any, ...]
    digest: bytes
    text: msgspec.Raw

    @property
    def size(self) -> int:
        # The request's own values are kept too; they are about a third as long as the text.
        return OF_EACH_BYTES + 2 * len(bytes(self.text))


class Descriptions:
    """The descriptions that were requested most recently, as JSON; `bytes_max` None is their share of the room."""

    def __init__(self, bytes_max: int | None = None) -> None:
        self.size = 0
        self._bytes_max = cache_bytes("descriptions") if bytes_max is None else bytes_max
        self._kept: OrderedDict[tuple[str, str, int], _Kept] = OrderedDict()

    def of(self, session: str, request: Request) -> msgspec.Raw:
        """Return the description of a request of this session as JSON."""
        place = (session, request.request_id, request.version)
        values = _values_of(request)
        kept = self._kept.get(place)
        if kept is not None and all(map(is_, kept.values, values)):
            self._kept.move_to_end(place)
            return kept.text
        # The follower of the event stream folds the same request a second time, into values of its own.
        digest = blake2b(msgspec.msgpack.encode(values)).digest()
        text = kept.text if kept is not None and kept.digest == digest else _encoded(request)
        made = _Kept(values, digest, text)
        self._drop(place)
        self._kept[place] = made
        self.size += made.size
        while self.size > self._bytes_max:
            self._drop(next(iter(self._kept)))
        return made.text

    def _drop(self, place: tuple[str, str, int]) -> None:
        kept = self._kept.pop(place, None)
        self.size -= 0 if kept is None else kept.size


def _encoded(request: Request) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(describe_request(request)))


@cache
def _of_this_process() -> Descriptions:
    return Descriptions()


def described(pending: Pending) -> dict[str, Any]:
    """Return `Pending.described`, with the description as encoded JSON, the facts of its row, and `plan`, the tree of a plan's Markdown."""
    row = {**pending.described(_of_this_process().of(pending.session, pending.request)), **_row_facts(pending)}
    tree = plan_tree(pending.request)
    return row if tree is None else {**row, "plan": tree}


def described_in_a_row(pending: Pending) -> Row:
    """Return `Pending.as_row` with the facts of the row."""
    return {**pending.as_row(), **_row_facts(pending)}


def danger_kinds_of(pending: Pending) -> set[DangerKind]:
    """Return the kinds of dangers in the description of a request."""
    return {one.kind for one in _listed(pending).dangers}


def _row_facts(pending: Pending) -> Row:
    """Return what a list needs of a request beside its words.

    `dangers` are their kinds, the gravest first, `kind` is how it is answered, and `by_passkey` tells whether the answer
    is signed. `alike` is equal for requests of a project that may be answered together, None for one that is answered
    alone. `one_line` is None unless the words of a row say all of the request; it is equal only for requests of which
    all is equal.
    """
    request, listed = pending.request, _listed(pending)
    kinds = {one.kind for one in listed.dangers}
    return {
        "dangers": [kind for kind in DANGERS if kind in kinds],
        "kind": _kind_of(request),
        "by_passkey": any(one.answer_by == PASSKEY for one in request.demands),
        "alike": None if listed.shape is None else _alike(request, listed.shape),
        "one_line": _one_line(request, listed),
    }


def _kind_of(request: Request) -> Literal["question", "plan", "call"]:
    given = request.input if request.tool_name and isinstance(request.input, dict) else {}
    if isinstance(given.get("questions"), list) and given["questions"]:
        return "question"
    return "plan" if isinstance(given.get("plan"), str) and given["plan"].strip() else "call"


def _alike(request: Request, shape: str) -> str:
    """Return the digest of a shape, of the rules that ask, and of what a grant would cover."""
    found = request.evaluation
    rules = [] if found is None else [one.text for one in found.rules]
    parts = [] if found is None else [(one.verdict, one.rules[0].text if one.rules else "") for one in found.parts]
    return _digest(shape, request.always, demanded(request), rules, parts)


_IN_EACH_ROW: Final = frozenset({"offered", "permission", "tool", "asker", "agent"})
"""Kinds of sections that each row has in other words."""

_ASIDE: Final = frozenset({"folder", "remark"})
"""Kinds of sections that change nothing of the call."""


def _one_line(request: Request, listed: _Listed) -> str | None:
    words = would_run(request).in_words()
    own = [one for one in listed.sections if one.kind not in _IN_EACH_ROW]
    if len(words) > LINE_CHARS or request.redacted or listed.odd or not all(_is_said(one, words) for one in own):
        return None
    reason = None if request.evaluation is None else request.evaluation.reason
    texts = [(one.kind, one.origin, one.label, one.text) for one in own if not one.repeats]
    return _digest(words, texts, reason, request.still_asked, [one.says for one in listed.dangers])


def _is_said(section: _SectionOf, words: str) -> bool:
    """Return whether the words of a row have a section; a member of a name that is not known, with its name."""
    if section.kind != "member":
        return section.kind in _ASIDE or section.text in words
    return any(f"{section.label}{beside}{section.text}" in words for beside in (": ", " ", ' "'))


def _digest(*values: Any) -> str:
    """Return a digest that nobody finds twice on purpose: an allow may rest on it."""
    return blake2b(msgspec.json.encode(values), digest_size=24).hexdigest()


def _listed(pending: Pending) -> _Listed:
    return _LISTED.decode(_of_this_process().of(pending.session, pending.request))


class _DangerOf(msgspec.Struct, frozen=True):
    kind: DangerKind
    says: str


class _SectionOf(msgspec.Struct, frozen=True):
    kind: str
    origin: str
    label: str
    text: str
    repeats: bool = False


class _Listed(msgspec.Struct, frozen=True):
    """The part of a description that a list reads."""

    dangers: tuple[_DangerOf, ...] = ()
    odd: tuple[msgspec.Raw, ...] = ()
    sections: tuple[_SectionOf, ...] = ()
    shape: str | None = None


_LISTED: Final = msgspec.json.Decoder(_Listed)


async def session_row_now(ledger: Ledger, state: SessionState) -> Row:
    """Return the row of a session, and who is online in it by leases; None if that is unknown."""
    return {**session_row(state), "clients": await online(ledger, state)}


def session_row(state: SessionState) -> Row:
    """Return the summary of a session, and its settings."""
    return {
        **summary_of(state),
        "lock": state.lock if records_clients(state) else None,
        "policy_digest": state.policy_digest,
        "settings": msgspec.to_builtins(state.settings),
        "cwd": state.cwd,
    }


def last_calls(state: SessionState, count: int) -> list[Row]:
    """Return the calls that were asked or that ended last, the newest first: each in words, and how it ended."""
    ids = [one.request.request_id for one in islice(state.settled.newest(), count)]
    ids += [one.request.request_id for one in pending_of(state)[-count:]]
    results = sorted((result_of(state, one) for one in ids), key=attrgetter("version"), reverse=True)[:count]
    return [_call_row(one) for one in results]


def _call_row(result: Result) -> Row:
    found = would_run(result.request)
    return {
        "request_id": result.request_id,
        "permission": result.request.permission,
        "would_run": cut(one_line(", ".join(found.texts)), CALL_CHARS),
        **({"names_tool": True} if found.names_tool == result.request.permission else {}),
        "outcome": result.outcome,
        "reply": result.reply,
        "by": result.by.name,
        "decided_by": None if result.settled is None else decider_of(result.settled),
        "at": result.at,
    }


def answering_facts(state: SessionState) -> Row:
    """Return what a person needs beside a pending request to see the effect of an answer."""
    return {
        "dialect": state.dialect or None,
        "always_scope": "session" if state.project is None else always_scope(state),
        "cascade_reject": state.settings.cascade_reject,
        "answering": state.settings.answering,
        "extending": state.settings.extending,
    }


def result_row(result: Result, *, is_described: bool = True) -> Row:
    """Return the state of a request: CONTRACT's row of ask and reply, the request, and fields that bridges need.

    `feedback` is a person's own text, without the dialect's frame; `cause` is the event that led to the outcome;
    `cancel_cause` is the reason of a withdrawal; `via` is the channel of the answer as observed by the gateway; `told`
    is the agent's prompt where only the agent reports the answer; `decided_by` is what decided without an answer. The
    description is for people: agents, and readers of the rules' decisions, do not get it.
    """
    request = Pending(session=result.session, request=result.request)
    settled = result.settled
    return {
        **result.as_json(),
        "updated_input": result.updated_input,
        "feedback": settled.message if settled is not None and result.outcome == "corrected" else None,
        "via": None if settled is None else settled.by.via,
        "decided_by": None if settled is None else decider_of(settled),
        "cause": None if settled is None else msgspec.to_builtins(settled.cause),
        "cancel_cause": None if settled is None else settled.cancel_cause,
        "request": described(request) if is_described else request.as_json(),
    }
