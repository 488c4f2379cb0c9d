"""Redaction of a ledger: its log, then its views, then the files of its servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ledger import Ledger
from ledger.client.redacting import project_of
from ledger.core.errors import ArchiveError, MissingExtraError, OnHoldError
from ledger.core.events import Actor
from ledger.log.archive.archive import archive_of
from ledger.log.archive.sweeping import Sweeping, SweepResult
from ledger.log.redactions import StreamPlan
from ledger.session.state import SessionState
from ledger.stores.port import FilesRewritten, StreamKey
from projections.engine import Engine
from workers.projector import Repairs
from workers.upkeep.archiving import hold_reason

OUT_OF_REACH: Final = (
    "messages and notifications that were sent",
    "exports, backups and copies of the server's files and of the archive that were made before",
    "indexes of requests, until their indexer runs",
    "what agents, hooks and bridges keep on their own machines",
)
"""Places of content that no redaction reaches; the command says so."""


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """A redaction that was carried out: the streams with their redacted versions, the servers' files, and the archive's.

    `archive_failed` is the reason why the archive's older files were not looked at.
    """

    streams: tuple[tuple[StreamPlan, tuple[int, ...]], ...]
    files: tuple[FilesRewritten, ...]
    archived: tuple[SweepResult, ...] = ()
    archive_failed: str | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is left: no entry that stays, and no file that was not written anew."""
        return (
            all(one.is_clean for one in self.files)
            and not any(plan.selection.stays for plan, _ in self.streams)
            and not any(one.done == "kept" for one in self.archived)
            and self.archive_failed is None
        )


async def carry_out(
    ledger: Ledger, plans: Sequence[StreamPlan], *, reason: str, actor: Actor, done: Callable[[int], None]
) -> Carried:
    """Redact streams, renew their views, and make the servers write their files anew; repeating it is harmless.

    Every plan is refused before anything is done if one of them is. Raises OnHoldError, SetupError, InDoubtError, StoreError.
    """
    for plan in plans:
        await ledger.redactions.require_not_held(plan)
    engine, streams = Engine(ledger.store, before_step=Repairs(ledger)), []
    for plan in plans:
        versions = await ledger.redactions.redact(plan, reason=reason, actor=actor) if plan.versions else []
        await engine.catch_up(plan.key)
        streams.append((plan, tuple(versions)))
        done(1)
    files = tuple(await ledger.store.rewrite_files())
    archived, failed = await _forgotten(ledger, [plan.key for plan in plans if plan.is_redacted])
    return Carried(streams=tuple(streams), files=files, archived=archived, archive_failed=failed)


async def _forgotten(ledger: Ledger, keys: Sequence[StreamKey]) -> tuple[tuple[SweepResult, ...], str | None]:
    """Remove from the archive what its older files hold of redacted sessions; return the results, or why not."""
    archive = archive_of(ledger.store)
    sessions = [key for key in keys if key.kind == "session"]
    if not sessions or await archive.url() is None:
        return (), None
    try:
        return tuple(await Sweeping(ledger.store, archive, hold_reason(ledger)).forget(sessions)), None
    except (ArchiveError, MissingExtraError) as error:
        return (), error.text


async def holds_over(ledger: Ledger, plans: Sequence[StreamPlan]) -> dict[StreamKey, str]:
    """Return the legal holds that refuse these redactions, in words, by stream."""
    found = {}
    for plan in plans:
        try:
            await ledger.redactions.require_not_held(plan)
        except OnHoldError as error:
            found[plan.key] = error.text
    return found


def notes_on(plan: StreamPlan) -> list[str]:
    """Return what else follows from a planned redaction."""
    state, goes = plan.folded.state, {one.version for one in plan.selection.goes}
    notes = []
    if isinstance(state, SessionState):
        if state.rules_version in goes:
            notes.append("the session's rules go: it judges nothing until it is opened again with rules")
        requests = sorted({one.request_id for one in plan.selection.goes if one.request_id is not None})
        open_ones = [one for one in requests if _may_write_more(state, one)]
        if open_ones:
            names = ", ".join(f"`{one}`" for one in open_ones)
            notes.append(f"not ended yet, so that more content may come: {names}; redact again after the end")
    grants = getattr(state, "grants", {})
    lost = [one.grant_id for one in grants.values() if one.version in goes and one.revoked_ms is None]
    if lost:
        notes.append(f"grants that lift nothing any more: {', '.join(sorted(lost))}")
    if plan.selection.without_content:
        named = ", ".join(map(str, plan.selection.without_content))
        notes.append(f"without content, or redacted already: version {named}")
    return notes


def _may_write_more(state: SessionState, request_id: str) -> bool:
    if request_id in state.pending:
        return True
    settled = state.settled.get(request_id)
    return settled is not None and settled.claim is not None and settled.claim.status == "open"


def plan_json(plan: StreamPlan, redacted: Sequence[int] | None = None, held: str | None = None) -> dict[str, Any]:
    """Return a stream's redaction as a JSON object; `redacted` None is a dry run, `held` the hold that refuses it."""
    is_session = plan.key.kind == "session"
    return {
        "stream": plan.key.name,
        "session": plan.key.id if is_session else None,
        "project": project_of(plan),
        "redacted": redacted is not None,
        "versions": [
            msgspec.to_builtins(one) for one in plan.selection.goes if redacted is None or one.version in redacted
        ],
        "not_redactable": [msgspec.to_builtins(one) for one in plan.selection.stays],
        "notes": notes_on(plan),
        "held": held,
    }
