"""`run`: a command asked about, claimed, run once and its end recorded; signals are passed on to it.

The file of a run that was given an id makes a repeated run the same runner, and two at once impossible: it holds the
token that is part of the runner of the claim. A run that was killed leaves it, so the same request, run again on this
machine, is the same runner. A run that lives holds a lock on it, and so does the command that it started, since it
inherits the descriptor.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import chdir, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import click

from ledger.client.machine import default_actor_name
from ledger.core.errors import AlreadyClaimedError, InputError, LedgerError, ReopenedError, StoreError
from ledger.core.ids import check_id, new_request_id
from ledger.core.questions import Runner, claim_id_of
from ledger.core.regular_files import locked
from workers.bridges.session_ids import folder_name
from workers.cli.ask import OpeningInput, WaitInput, with_opening, with_waiting
from workers.cli.base import command, tell_logs
from workers.cli.output import Exit, talk
from workers.cli.run_places import DirectRun, GatewayRun, RunPlace, RunRequest, RunVerdict, WantedCommand
from workers.transport.place import ADDRESS, data_folder

FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
)
ENDING: Final = FORWARDED[:4]
"""Signals that ask a process to end."""

_OF_TERMINAL: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGWINCH})
_IGNORED_BY_PYTHON: Final = tuple(
    getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ", "SIGXFZ") if hasattr(signal, name)
)
"""Signals that the interpreter ignores; a program expects their default."""

SIGNAL_CODE: Final = 128
"""Added to the number of a signal for the exit code, as shells do."""

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class ChildEnd(NamedTuple):
    """The exit code as in shells, and a text that says how the process ended. `is_missing`: it was never started."""

    code: int
    text: str
    is_missing: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0


class SignalHold:
    """Signals kept from ending this process, from the claim of a call to the record of its end.

    A signal that was ignored when this process started, as under `nohup`, stays ignored here and in the child.
    """

    def __init__(self) -> None:
        self.stopped_by: signal.Signals | None = None
        """The first signal that asked this process to end while no child ran."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        held = [one for one in FORWARDED if signal.getsignal(one) is not signal.SIG_IGN]
        # A signal with a handler is queued while it is blocked, on every system.
        self._before = {one: signal.signal(one, self._note) for one in (*held, signal.SIGCHLD)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, _frame: object) -> None:
        if number in ENDING and self.stopped_by is None:
            self.stopped_by = signal.Signals(number)

    def run(self, words: Sequence[str], folder: str) -> ChildEnd | None:
        """Run a program in a folder to its end; None if a signal asked this process to end before the start.

        It inherits all inheritable descriptors and the environment. Raises OSError when it cannot be started.
        """
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._before)
        try:
            pending = signal.sigpending()
            self.stopped_by = self.stopped_by or next((one for one in ENDING if one in pending), None)
            if self.stopped_by is not None:
                return None
            ignored = [one for one in _IGNORED_BY_PYTHON if signal.getsignal(one) is signal.SIG_IGN]
            with chdir(folder):
                child = os.posix_spawnp(words[0], tuple(words), os.environ, setsigmask=mask, setsigdef=ignored)
            return self._passed_on(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _passed_on(self, child: int) -> ChildEnd:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _end_of(status)
            number = _next_to_forward(self._before, child)
            if number is not None:
                with suppress(ProcessLookupError):
                    os.kill(child, number)


def _end_of(status: int) -> ChildEnd:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return ChildEnd(code, f"exit code {code}")
    return ChildEnd(SIGNAL_CODE - code, f"ended by {_name(-code)}")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal


def _next_to_forward(waited: Collection[signal.Signals], child: int) -> int | None:
    """Wait for a signal, and return it if the child has not received it; None for the end of a child too."""
    if not hasattr(signal, "sigwaitinfo"):
        number = signal.sigwait(waited)
        return None if number == signal.SIGCHLD or (number in _OF_TERMINAL and _in_foreground()) else number
    found = signal.sigwaitinfo(waited)
    is_sent_by_process = found.si_code <= 0 and found.si_pid != child
    return found.si_signo if is_sent_by_process and found.si_signo != signal.SIGCHLD else None


def _in_foreground() -> bool:
    """Return whether the terminal sends the signals of its keys to this process's group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


FOLDER: Final = "runs"
TOKEN_BYTES: Final = 16
_TOKEN_CHARS: Final = 2 * TOKEN_BYTES


class RunFile:
    """The token of a run, and the lock on its file. Without a file the token is this process's alone."""

    def __init__(self, token: str, path: Path | None = None, descriptor: int = -1) -> None:
        self.token = token
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def alone(cls) -> Self:
        """Return a run that no other process can repeat."""
        return cls(os.urandom(TOKEN_BYTES).hex())

    @classmethod
    def take(cls, session: str, request_id: str) -> Self | None:
        """Lock the file of a request, and make it if there is none; None if a process runs the request now."""
        name = hashlib.sha256(request_id.encode()).hexdigest()[:_TOKEN_CHARS]
        path = Path(data_folder(), FOLDER, folder_name(session), name)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = locked(str(path), os.O_RDWR | os.O_CREAT)
        except OSError:
            # Without a file a repeated run is another runner, and is refused.
            return cls.alone()
        if descriptor is None:
            return None
        os.set_inheritable(descriptor, True)
        found = cls(os.pread(descriptor, _TOKEN_CHARS, 0).decode("ascii", "replace"), path, descriptor)
        if len(found.token) != _TOKEN_CHARS:
            found.renew()
        return found

    def renew(self) -> None:
        """Write another token: the claim under the present one was given back."""
        self.token = os.urandom(TOKEN_BYTES).hex()
        if self._descriptor >= 0:
            os.pwrite(self._descriptor, self.token.encode(), 0)

    def done(self) -> None:
        """Remove the file: the run has ended and is recorded."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
        self.leave()

    def leave(self) -> None:
        """Release the lock, and keep the file for a repeated run."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


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
            end = _started(hold, words, self._request.folder)
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


def _started(hold: SignalHold, words: tuple[str, ...], folder: str) -> ChildEnd | None:
    try:
        return hold.run(words, folder)
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        return ChildEnd(code, f"not started: {(error.strerror or str(error)).lower()}", is_missing=True)


@command(
    "permission-ledger run ses_1 -- git push origin main",
    "permission-ledger run ses_1 --id deploy-42 --project shop --timeout 10m -- ./deploy.sh prod",
    "permission-ledger run ses_1 --cwd services/api -- make test",
    "permission-ledger run ses_1 --shell 'make test && git push'",
    "permission-ledger run ci --gateway --id job-7 -- terraform apply",
)
@click.argument("session")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--shell", metavar="LINE", help="Run this line in bash, instead of words.")
@click.option(
    "--cwd",
    "folder",
    type=click.Path(resolve_path=True),
    metavar="DIR",
    help="The folder that the command runs in, and is judged in (default: this one).",
)
@click.option("--id", "request_id", metavar="ID", help="Your own request id; the same command again attaches to it.")
@with_opening
@with_waiting
@click.option("--gateway", is_flag=True, help=f"Ask at the gateway (default where {ADDRESS} is set, without --url).")
def run(
    *,
    url: str | None,
    as_json: bool,
    session: str,
    words: tuple[str, ...],
    shell: str | None,
    folder: str | None,
    request_id: str | None,
    no_wait: bool,
    timeout: str | None,
    gateway: bool,
    **typed: Any,
) -> int:
    """Ask whether a command may run, wait for the answer, claim it, and run exactly these words without a shell.

    The command has this one's input, output, terminal, environment and signals, and its folder unless --cwd names one.
    Its exit code is that of `run`: 128 and the number of a signal that ended it, 127 if it is not found, 126 if it
    cannot be executed. If it does not run: 3 denied, 4 rejected, 5 expired, 6 cancelled, 7 still pending, 13 claimed by
    another, 14 frozen.

    With --id a run that was killed can be repeated with the same words on the same machine; it claims again. Any other
    process is refused. Rules, times and other settings that are given are the session's from here on.
    """
    if url is not None and gateway:
        raise click.UsageError("give --url or --gateway, not both")
    if folder is not None and not Path(folder).is_dir():
        raise click.UsageError(f"--cwd `{folder}` is no folder")
    opening = OpeningInput(**{name: typed[name] for name in OpeningInput._fields})
    opening.check()
    wanted = RunRequest(
        session=check_id(session, "session id"),
        request_id=new_request_id() if request_id is None else check_id(request_id, "request id"),
        command=_wanted(words, shell),
        folder=folder or str(Path.cwd()),
        opening=opening,
        wait=WaitInput.read(no_wait, timeout),
    )
    tell_logs(as_json=as_json)
    is_behind_gateway = gateway or (url is None and bool(os.environ.get(ADDRESS)))
    place: RunPlace = GatewayRun(wanted, talk) if is_behind_gateway else DirectRun(url, wanted)
    return CommandRun(place, wanted, talk, _again(wanted, gateway=gateway), is_named=request_id is not None).run()


def _wanted(words: tuple[str, ...], shell: str | None) -> WantedCommand:
    if (shell is None) == (not words):
        raise click.UsageError("give the words of a command after `--`, or --shell LINE")
    wanted = WantedCommand(words) if shell is None else WantedCommand((shell,), is_line=True)
    if not wanted.line.strip() or not wanted.words[0]:
        raise click.UsageError("the command is empty")
    return wanted


def _again(wanted: RunRequest, *, gateway: bool) -> str:
    said = ["permission-ledger", "run", wanted.session, f"--id={wanted.request_id}"]
    said += ["--gateway"] if gateway else []
    said += [] if wanted.folder == str(Path.cwd()) else [f"--cwd={wanted.folder}"]
    said += [] if wanted.opening.agent is None else [f"--agent={wanted.opening.agent}"]
    command_words = wanted.command.words
    return shlex.join(
        [*said, f"--shell={command_words[0]}"] if wanted.command.is_line else [*said, "--", *command_words]
    )
