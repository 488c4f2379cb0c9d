"""A run from its question to the record of its end: asked, claimed, started, finished.

From the claim on, signals do not end this process. One that asks it to end before the start gives the claim back; later
ones go to the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from ledger.client.machine import default_actor_name
from ledger.core.errors import AlreadyClaimedError, InputError, LedgerError, ReopenedError, StoreError
from ledger.core.runners import Runner, claim_id_of
from workers.cli.exits import Exit
from workers.cli.running.child import SIGNAL_CODE, ChildEnd, SignalHold, not_started
from workers.cli.running.places import RunPlace, RunRequest, RunVerdict
from workers.cli.running.run_file import RunFile

KILLED: Final = "the run that claimed it was killed; its asker runs it again"


class CommandRun:
    """One run. `again` is the command line that attaches to its request.

    `is_named`: the request id is the caller's own, so the run may be a repeated one.
    """

    def __init__(
        self, place: RunPlace, request: RunRequest, tell: Callable[[str], None], again: str, *, is_named: bool
    ) -> None:
        self._place = place
        self._request = request
        self._tell = tell
        self._again = again
        self._is_named = is_named

    def run(self) -> int:
        """Ask, wait, claim and run; return the exit code of the command, or of the refusal. Raises LedgerError."""
        while True:
            try:
                verdict = self._asked()
            except AlreadyClaimedError as error:
                if not self._is_taken_up(error):
                    raise
                continue
            if verdict.error is not None:
                raise verdict.error
            if verdict.outcome is None:
                self._tell(f"hint: wait for it again with: {self._again}")
                return Exit.PENDING
            with SignalHold() as hold:
                try:
                    return self._claimed(hold, verdict)
                except ReopenedError as error:
                    # Asked again at once: a deny is told by that, and anything else waits for a person.
                    self._tell(f"asked again: {error.text}")

    def _asked(self) -> RunVerdict:
        try:
            return asyncio.run(self._place.ask(self._pending))
        except KeyboardInterrupt:
            self._tell(f"the request stays pending; wait for it again with: {self._again}")
            raise

    def _pending(self, request_id: str) -> None:
        self._tell(f"waiting for an answer to {request_id}, e.g. `permission-ledger reply {request_id} once`")

    def _claimed(self, hold: SignalHold, verdict: RunVerdict) -> int:
        request_id = self._request.request_id
        file = RunFile.take(self._request.session, request_id) if self._is_named else RunFile.alone()
        if file is None:
            text = f"a process on this machine runs request `{request_id}` now; wait for its end"
            raise AlreadyClaimedError(text, request_id=request_id, session=self._request.session, agent="stop")
        try:
            self._take_up(file, verdict)
            runner = self._runner(file)
            words = self._words(asyncio.run(self._place.claim(runner)))
            end = _run(hold, words, self._request.folder)
            if end is None:
                return self._given_back(hold)
            self._finish(runner, end)
            file.done()
        except StoreError:
            raise  # in doubt: the claim may have been written
        except LedgerError:
            file.done()
            raise
        finally:
            file.leave()
        if end.is_missing:
            self._tell(f"error: `{words[0]}` was {end.text}")
        return end.code

    def _is_taken_up(self, error: AlreadyClaimedError) -> bool:
        """Give back the open claim of an earlier run that was killed; return whether it was one of this request."""
        file = RunFile.take(self._request.session, self._request.request_id) if self._is_named else None
        if file is None:
            return False
        try:
            claim_id = claim_id_of(self._runner(file))
            if error.data.get("claim_id") != claim_id or "has run" in error.text:
                file.done()
                return False
            self._take_up(file, RunVerdict(self._request.request_id, "allowed", None, claim_id, "open"))
        finally:
            file.leave()
        return True

    def _take_up(self, file: RunFile, verdict: RunVerdict) -> None:
        """Give back the claim of an earlier run that was killed. This one is judged anew, and the log shows both."""
        if verdict.claim_id != claim_id_of(self._runner(file)):
            return
        if verdict.claim_status == "open":
            self._tell(f"warning: an earlier run of {self._request.request_id} was killed, and may have run in part")
            asyncio.run(self._place.release(KILLED))
        if verdict.claim_status in ("open", "released"):
            file.renew()

    def _runner(self, file: RunFile) -> Runner:
        return Runner(name=f"run by {default_actor_name()}", call=f"{self._request.request_id} {file.token}")

    def _words(self, allowed: Mapping[str, Any]) -> tuple[str, ...]:
        try:
            return self._request.command.to_run(allowed)
        except InputError as error:
            asyncio.run(self._place.release(error.text))
            raise

    def _given_back(self, hold: SignalHold) -> int:
        assert hold.stopped_by is not None, "the reason why nothing was started"
        with suppress(LedgerError):
            asyncio.run(self._place.release(f"{hold.stopped_by.name} came before it was started"))
        return SIGNAL_CODE + hold.stopped_by

    def _finish(self, runner: Runner, end: ChildEnd) -> None:
        try:
            asyncio.run(self._place.finish(runner, end.text, ok=end.ok))
        except LedgerError as error:
            # The command has run: its exit code counts, and the claim stays as one that may have run.
            self._tell(f"warning: the end of {self._request.request_id} was not recorded: {error.text}")


def _run(hold: SignalHold, words: tuple[str, ...], folder: str) -> ChildEnd | None:
    try:
        return hold.run(words, folder)
    except OSError as error:
        return not_started(error)
