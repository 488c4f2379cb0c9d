"""Actors: askers, approvers, granters, a lawmaker, clients, expiry workers, and those who close sessions.

All record the outcomes they receive. After a crash of its process each continues where it was: a call without
an answer is repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeVar

import msgspec

from ledger import (
    AlreadyAnsweredError,
    AlreadyClaimedError,
    DigestMismatchError,
    FrozenError,
    Ledger,
    RefusalError,
    Result,
    Runner,
    Session,
    SessionClosedError,
    StaleReplyError,
    StoreError,
    Timeouts,
    UnknownGrantError,
    UnknownRequestError,
    claim_id_of,
)
from ledger.core.errors import InDoubtError
from ledger.core.policy import ReplyKind
from ledger.stores.port import Position, StreamKey
from tests.simulation.world import World
from workers.expiry import Settler

PROJECT: Final = "shop"
PATTERNS: Final = ("git push", "npm test", "make")
RULES: Final = [
    {"permission": "read", "pattern": "*", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]
TIMEOUTS: Final = Timeouts(attended=10, unattended=30, cap=60)
EARLY_MS: Final = 50
LATE_MS: Final = 200
"""The latest answer: two of three requests are answered near their deadline, where the order of events matters."""
REPLIES: Final[tuple[ReplyKind, ...]] = ("once", "once", "session", "always", "reject")
PATIENCE_SECONDS: Final = 2.0

T = TypeVar("T")


class Told(msgspec.Struct, frozen=True):
    """The outcome of a request as a caller received it, and the logs' positions at the call and at the answer.

    `outcome` is an outcome, or `unknown`, or `closed`. `at_ms` is None where the answer does not say when.
    """

    who: str
    kind: Literal["ask", "wait", "reply", "cancel"]
    session: str
    request_id: str
    outcome: str
    by: str | None
    reply: str | None
    at_ms: int | None
    since: Position
    until: Position
    project_since: Position
    project_until: Position
    called_ms: int
    server_ms: int
    said: str | None = None
    refused: bool = False


class ToldClaim(msgspec.Struct, frozen=True):
    """The answer to a claimer: it may run the call (`runner` is its own), or another runner may."""

    session: str
    request_id: str
    claim_id: str
    runner: str | None
    until: Position


class Diary:
    """All outcomes that callers received, and all acknowledged facts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.told: list[Told] = []
        self.claims: list[ToldClaim] = []
        self.noted: list[tuple[str, str]] = []
        """(session, call id) of acknowledged notes."""


class Call:
    """One call in flight: its start and its result."""

    def __init__(self, diary: Diary, who: str, kind: Any, on: tuple[str, str], said: str | None) -> None:
        session, request_id = on
        self._diary = diary
        self._names = (who, kind, session, request_id)
        self._said = said
        self._stream = StreamKey("session", session)
        self._project = StreamKey("project", PROJECT)
        world = diary.world
        self._began = (world.head(self._stream), world.head(self._project), world.now_ms)

    def record(
        self,
        what: str,
        by: str | None = None,
        reply: str | None = None,
        at_ms: int | None = None,
        *,
        refused: bool = True,
    ) -> None:
        world = self._diary.world
        since, project_since, called_ms = self._began
        until, project_until, server_ms = world.head(self._stream), world.head(self._project), world.now_ms
        self._diary.told.append(
            Told(
                *self._names, what, by, reply, at_ms, since, until, project_since, project_until, called_ms, server_ms,
                self._said, refused,
            )
        )  # fmt: skip

    def result(self, result: Result) -> None:
        self.record(result.outcome or "pending", result.by.name, result.reply, result.at_ms, refused=False)


class Someone:
    """An actor; acts `turns` times."""

    is_daemon = False

    def __init__(self, diary: Diary, name: str, turns: int) -> None:
        self.name = name
        self.is_done = False
        self._diary = diary
        self._world = diary.world
        self._chance = diary.world.scheduler.chance
        self._left = turns
        self._held: dict[tuple[int, str], Session] = {}

    async def run(self, ledger: Ledger) -> None:
        while self._left:
            await self._world.pass_time(6)
            await self._act(ledger)
            self._left -= 1

    async def _act(self, ledger: Ledger) -> None:
        raise NotImplementedError

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Retry while the server is unreachable or does not answer."""
        while True:
            try:
                return await work()
            except StoreError:
                await self._world.pass_time(PATIENCE_SECONDS)

    async def _session(self, ledger: Ledger, session_id: str) -> Session:
        """Open the session once per life of the process: later calls use its cache."""
        held = self._held.get((id(ledger), session_id))
        if held is None:
            held = await self._patiently(lambda: self._open(ledger, session_id))
            self._held[id(ledger), session_id] = held
        return held

    async def _open(self, ledger: Ledger, session_id: str) -> Session:
        """Open the session with the rules now written for it."""
        cascade: Any = "project" if session_id.endswith("1") else "session"
        rules = self._world.rules.get(session_id, RULES)
        return await ledger.session(
            session_id, project=PROJECT, rules=rules, timeouts=TIMEOUTS, cascade_always=cascade, actor="opener"
        )

    def _call(self, kind: str, session: str, request_id: str, said: str | None = None) -> Call:
        return Call(self._diary, self.name, kind, (session, request_id), said)


class Asker(Someone):
    """Asks under the same id until it receives an outcome; sometimes gives up and withdraws; notes the tools it ran."""

    def __init__(self, diary: Diary, name: str, session: str, turns: int) -> None:
        super().__init__(diary, name, turns)
        self._on = session
        self._number = 0

    async def _act(self, ledger: Ledger) -> None:
        # Derived from its number of turns, so that it repeats the same ask after a crash.
        number = self._left
        request_id = f"{self.name}-{number}"
        pattern = PATTERNS[number % len(PATTERNS)] if number % 7 else "rm -rf /"
        permission = "read" if number % 5 == 4 else "bash"
        session = await self._session(ledger, self._on)
        self._diary.world.board.append((self._on, request_id))
        if self._chance.random() < 0.25:
            await self._submit_and_wait(session, permission, pattern, request_id)
        if await self._ask(session, permission, pattern, request_id):
            await self._note(session, request_id)

    async def _ask(self, session: Session, permission: str, pattern: str, request_id: str) -> bool:
        while True:
            call = self._call("ask", self._on, request_id)
            try:
                result = await session.ask(permission, [pattern], always=[pattern], request_id=request_id)
            except AlreadyClaimedError:
                return False
            except RefusalError as error:
                call.record(error.code.lower(), error.data["by"])
                return False
            except SessionClosedError:
                call.record("closed")
                return False
            except UnknownRequestError:
                # Only when the server lost it.
                call.record("lost")
            except StoreError:
                await self._world.pass_time(PATIENCE_SECONDS)
            else:
                call.result(result)
                return True

    async def _submit_and_wait(self, session: Session, permission: str, pattern: str, request_id: str) -> None:
        try:
            await session.submit(permission, [pattern], always=[pattern], request_id=request_id)
            call = self._call("wait", self._on, request_id)
            call.result(await session.wait(request_id, timeout=self._chance.random() * 4))
        except (StoreError, AlreadyClaimedError, FrozenError, SessionClosedError, UnknownRequestError):
            return
        if self._chance.random() < 0.4:
            await self._withdraw(session, request_id)

    async def _withdraw(self, session: Session, request_id: str) -> None:
        call = self._call("cancel", self._on, request_id)
        try:
            call.result(await session.cancel(request_id, actor=self.name))
        except AlreadyAnsweredError as error:
            call.record(error.data["outcome"], error.data["by"], error.data["reply"], error.data["at_ms"])
        except (StoreError, UnknownRequestError):
            return

    async def _note(self, session: Session, request_id: str) -> None:
        self._number += 1
        call_id = f"{request_id}-ran-{self._number}"
        try:
            await session.note_tool_finished(request_id, call_id=call_id)
        except StoreError:
            return
        self._diary.noted.append((self._on, call_id))


class Approver(Someone):
    """Answers the requests it knows, also those that others answer at the same time."""

    async def _act(self, ledger: Ledger) -> None:
        if not self._world.board:
            return
        session_id, request_id = self._chance.choice(self._world.board[-4:])
        reply = self._chance.choice(REPLIES)
        message = "use a branch" if reply == "reject" and self._chance.random() < 0.3 else None
        session = await self._session(ledger, session_id)
        if int(request_id.rpartition("-")[2]) % 3:
            await self._until_its_deadline(session, request_id)
        round_: int | None = None
        while True:
            call = self._call("reply", session_id, request_id, reply)
            try:
                call.result(await session.reply(request_id, reply, message=message, actor=self.name, round=round_))
            except DigestMismatchError as error:
                round_ = error.data["round"]
                continue
            except AlreadyAnsweredError as error:
                call.record(error.data["outcome"], error.data["by"], error.data["reply"], error.data["at_ms"])
            except StaleReplyError:
                call.record("expired")
            except FrozenError:
                return
            except UnknownRequestError:
                call.record("unknown")
            except StoreError:
                await self._world.pass_time(PATIENCE_SECONDS)
                continue
            return

    async def _until_its_deadline(self, session: Session, request_id: str) -> None:
        try:
            pending = await session.pending()
        except StoreError:
            return
        deadlines = {one.request.request_id: one.request.deadline_ms for one in pending}
        deadline_ms = deadlines.get(request_id)
        if deadline_ms is not None:
            await self._world.reach(deadline_ms + self._chance.randint(-EARLY_MS, LATE_MS))


class Claimer(Someone):
    """Claims calls that others asked for, as others do at the same time; ends some of its runs, and forgets others."""

    async def _act(self, ledger: Ledger) -> None:
        if not self._world.board:
            return
        # By its number of turns, so that it claims the same call after a crash.
        session_id, request_id = self._world.board[-1 - self._left % min(len(self._world.board), 4)]
        runner = Runner(self.name, request_id)
        session = await self._session(ledger, session_id)
        try:
            claim = await self._patiently(lambda: session.claim(request_id, runner=runner, actor=self.name))
        except AlreadyClaimedError as error:
            self._note(session_id, runner, error.data.get("runner"))
            return
        except (RefusalError, SessionClosedError, UnknownRequestError):
            return
        self._note(session_id, runner, self.name)
        if self._left % 3:
            # Unknown only when the server lost it.
            with suppress(RefusalError, UnknownRequestError):
                await self._patiently(lambda: session.finish(request_id, claim.claim_id, actor=self.name))

    def _note(self, session_id: str, runner: Runner, winner: str | None) -> None:
        until = self._world.head(StreamKey("session", session_id))
        self._diary.claims.append(ToldClaim(session_id, runner.call, claim_id_of(runner), winner, until))


class Granter(Someone):
    """Grants to the whole project, and revokes it."""

    async def _act(self, ledger: Ledger) -> None:
        try:
            grant = await ledger.grant_in_project(PROJECT, "bash", self._chance.choice(PATTERNS), actor=self.name)
        except (StoreError, FrozenError):
            return
        await self._world.pass_time(5)
        # Unknown only when the server lost it.
        with suppress(UnknownGrantError):
            await self._patiently(lambda: ledger.revoke(grant.grant.grant_id, actor=self.name))


class Rationer(Someone):
    """Grants single uses of each command to the whole project, and revokes them after a while."""

    async def _act(self, ledger: Ledger) -> None:
        made: list[str] = []
        for pattern in PATTERNS:
            with suppress(StoreError, FrozenError):
                grant = await ledger.grant_in_project(PROJECT, "bash", pattern, uses=1, actor=self.name)
                made.append(grant.grant.grant_id)
        await self._world.pass_time(15)
        for grant_id in made:
            await self._patiently(partial(self._revoke, ledger, grant_id))

    async def _revoke(self, ledger: Ledger, grant_id: str) -> None:
        # Unknown only when the server lost it.
        with suppress(UnknownGrantError):
            await ledger.revoke(grant_id, actor=self.name)


class Freezer(Someone):
    """Freezes everything, or the project, for a while; records from when to when that was acknowledged."""

    async def _act(self, ledger: Ledger) -> None:
        project = PROJECT if self._left % 2 else None
        await self._patiently(lambda: ledger.freezes.freeze(project, reason="a drill", actor=self.name))
        frozen = self._world.frozen
        if not frozen or frozen[-1][1] is not None:
            frozen.append((self._world.now_ms, None))
        await self._world.pass_time(8)
        frozen[-1] = (frozen[-1][0], self._world.now_ms)
        await self._patiently(lambda: ledger.freezes.unfreeze(project, actor=self.name))


class Lawmaker(Someone):
    """Denies the command of a pending request until nobody can answer it any more; then lifts the denial."""

    async def _act(self, ledger: Ledger) -> None:
        session_id = self._chance.choice(["ses_0", "ses_1"])
        session = await self._session(ledger, session_id)
        waiting = [one.request for one in await self._patiently(session.pending)]
        if not waiting:
            return
        request = self._chance.choice(waiting)
        denied = {"permission": request.permission, "pattern": request.patterns[0], "action": "deny"}
        await self._enact(ledger, session_id, [*RULES, denied])
        await self._world.reach((request.deadline_ms or 0) + LATE_MS)
        await self._enact(ledger, session_id, RULES)

    async def _enact(self, ledger: Ledger, session_id: str, rules: list[dict[str, str]]) -> None:
        self._world.rules[session_id] = rules
        await self._patiently(lambda: self._open(ledger, session_id))


class Client(Someone):
    """A person's client that opens a session for a while; it is present while its lease is renewed."""

    async def _act(self, ledger: Ledger) -> None:
        session = await self._session(ledger, self._chance.choice(["ses_0", "ses_1"]))
        try:
            connection = await session.connect(f"phone-{self.name}", actor=self.name)
            async with connection:
                await self._world.pass_time(20)
        except (StoreError, SessionClosedError):
            return


class Closer(Someone):
    """Closes one session, late."""

    async def _act(self, ledger: Ledger) -> None:
        session = await self._session(ledger, "ses_0")
        await self._world.pass_time(30)
        await self._patiently(lambda: session.close(actor=self.name))


class ExpiryWorker(Someone):
    """Settles what the index of deadlines names, as the worker does, until all others are done."""

    is_daemon = True

    async def run(self, ledger: Ledger) -> None:
        settler = Settler(ledger)
        while True:
            await self._world.pass_time(4)
            try:
                await settler.settle_due()
                settler.give_another_try()
            except (StoreError, InDoubtError):
                continue
