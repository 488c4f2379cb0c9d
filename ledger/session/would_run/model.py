"""The types of a description: sections of text with their origin, marks and dangers.

The gateway serves it as the member `description` of a request (`docs/reference/http.md`). Offsets count code points:
in JavaScript, `for (const one of text)` counts the same.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.policy.shell.facts import Danger
from ledger.session.would_run.marks import Mark, OddCharacter
from ledger.session.would_run.names import CallKind, Origin, SectionKind

LONG_LINES: Final = 14
"""A section of more lines may be folded."""

LONG_CHARS: Final = 1600
"""A section of more characters may be folded."""


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One complete text of a request.

    `kind` determines its display and `origin` the member of the request it is from; `label` determines neither, because
    an agent may name a member `folder`. `label` is the member's own name (`command`, `edits[2].old_string`) or, for
    origins other than `input` and `metadata`, a word of ours (`pattern`, `folder`, `asked by`). `text` is unchanged;
    where `is_json` is true it is the JSON of a value that is no text. Commands have `rows`: the text with one part on
    each line; joined, they equal `text` byte for byte. `lines` and `chars` are its size. `may_fold` marks a long text:
    a display that folds it shows the size of the folded part, and accepts no allow before it is opened. `repeats` marks
    a text that an earlier section contains word for word, so that a display may omit it. `marks` and `label_marks` are
    spans of misleading characters. `dangers` are facts about this text. In JSON, false and empty members are omitted.
    """

    kind: SectionKind
    origin: Origin
    label: str
    text: str
    is_json: bool = False
    lines: int
    chars: int
    may_fold: bool = False
    repeats: bool = False
    rows: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    label_marks: tuple[Mark, ...] = ()
    dangers: tuple[Danger, ...] = ()


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The complete description of a request, in display order.

    Every key and value of its input and metadata is in a section, and so are every pattern, the folder, the asker's
    token and the agent's own name. `dangers` are those of all sections, the gravest first, displayed above everything.
    `odd` are the distinct marked characters of all texts; `odd_left` counts those beyond the limit. `shape` is equal for
    requests that a person may answer together; None for one that is answered alone.
    """

    kind: CallKind
    dangers: tuple[Danger, ...]
    odd: tuple[OddCharacter, ...]
    odd_left: int
    sections: tuple[Section, ...]
    shape: str | None = None
