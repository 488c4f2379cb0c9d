"""The shape of a description: sections of text, each with its place, its marks and its dangers.

The gateway serves it as the member `description` of a request (`docs/reference/http.md`). Offsets count code points:
in JavaScript, `for (const one of text)` counts the same.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.policy.shell.facts import Danger
from ledger.session.would_run.marks import Mark, OddCharacter
from ledger.session.would_run.names import Kind, Origin, SectionKind

LONG_LINES: Final = 14
"""A section of more lines may be folded."""

LONG_CHARS: Final = 1600
"""A section of more characters may be folded."""


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One text of a request, whole.

    `kind` says how it is drawn and `origin` which member of the request it is of, never `label`: an agent may call a
    member `folder`. `label` is the member's own name (`command`, `edits[2].old_string`) or, for origins other than
    `input` and `metadata`, a word of ours (`pattern`, `folder`, `asked by`). `text` is as the agent wrote it; where
    `is_json` is true it is the JSON of a value that is no text. `rows` are there for commands: the text one part a
    line; joined, they are `text` byte for byte. `lines` and `chars` tell its size. `may_fold` says that it is long: a
    reader that folds it shows how much is folded, and takes no allow before it was opened. `repeats` says that all of
    it stands word for word in an earlier section, so that a reader may leave it out. `marks` and `label_marks` are the
    spans of characters that are not what they seem. `dangers` are facts about this text. In JSON, members that are
    false or empty are left out.
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
    """All of a request, in the order in which it is drawn.

    Every key and every value of its input and metadata stands in a section, likewise every pattern, the folder, the
    token that asks and what the agent calls itself. `dangers` are those of all sections, the gravest first, and stand
    above everything. `odd` are the different characters that are marked anywhere; `odd_left` counts those beyond it.
    """

    kind: Kind
    dangers: tuple[Danger, ...]
    odd: tuple[OddCharacter, ...]
    odd_left: int
    sections: tuple[Section, ...]
