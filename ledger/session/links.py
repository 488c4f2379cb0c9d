"""The links that an evaluation followed, compared with those of a claim: an approval is for the files it was about. Pure."""

from __future__ import annotations

from typing import Final

from ledger.core.masked_text import holds_mask
from ledger.core.policy import ConsultedFile, Evaluation

TARGET: Final = "target"


def links_of(evaluation: Evaluation | None) -> tuple[ConsultedFile, ...] | None:
    """Return the links that an evaluation followed; None where it recorded no files, or masked the name of one."""
    if evaluation is None or evaluation.facts is None or evaluation.facts.too_many is not None:
        return None
    links = tuple([file for file in evaluation.facts.files if file.asked == TARGET and file.found is not None])
    return None if any(holds_mask((link.path, link.found)) for link in links) else links


def changed_link(known: tuple[ConsultedFile, ...] | None, now: Evaluation) -> str | None:
    """Return what changed for people, if a path leads elsewhere than when the request was judged; else None.

    `known` are the links of then, None for a request of whose files nothing is known.
    """
    if known is None or now.facts is None:
        return None
    then = {link.path: link.found for link in known}
    for file in now.facts.files:
        if file.asked == TARGET:
            target, was = file.found or file.path, then.get(file.path) or file.path
            if target != was:
                return f"`{file.path}` leads to `{target}` now, and to `{was}` when it was asked about"
    return None
