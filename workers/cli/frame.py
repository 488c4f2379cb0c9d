"""The outermost frame of the program: every failure is one clear message and an exit code, never a traceback."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from typing import TextIO

import click

from workers.cli.exits import Exit
from workers.cli.output import silence_stdout, talk, talk_json
from workers.presentation.text import visible

DEBUG = "PERMISSION_LEDGER_DEBUG"


def run(group: click.Group) -> int:
    """Run the command that `sys.argv` names, and return its exit code."""
    # Python looks for garbage once more at the end, which takes as long as all that a short command does itself.
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        _never_fails_on_a_character(stream)
    try:
        code = _run(group)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return Exit.CLOSED_PIPE
    return code


def _run(group: click.Group) -> int:
    try:
        code = group.main(prog_name="permission-ledger", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except click.ClickException as error:
        return _tell_usage(error)
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        return _tell_missing(error)
    except Exception as error:  # noqa: BLE001 - the last frame: a person is told in a line
        return _tell_fault(error)
    return code if isinstance(code, int) else Exit.DONE


def _never_fails_on_a_character(stream: TextIO) -> None:
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def _tell_usage(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Exit.USAGE
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = _in_our_style(error.format_message())
    hint = f"{context.command_path} --help" if context else getattr(error, "hint", None)
    code = Exit.USAGE if isinstance(error, click.UsageError) else Exit.BAD_INPUT
    if "--json" in sys.argv:
        talk_json({**_members(getattr(error, "code", "USAGE"), message), "hint": hint})
        return code
    if context is not None:
        click.echo(visible(context.command.get_usage(context).replace("\n", " ")), err=True)
    talk(f"error: {message}")
    if hint:
        talk(f"hint: {hint}")
    return code


def _members(code: str, text: str) -> dict[str, object]:
    """Return the members of every ledger error; its own class is too slow to import for bridges."""
    return {"code": code, "error": text, "request_id": None, "session": None, "reasons": [], "agent": "continue"}


def _in_our_style(message: str) -> str:
    """Return click's message in the style of our errors: lower-case, without a full stop, on one line."""
    text = " ".join(message.split()).removesuffix(".")
    return text[:1].lower() + text[1:]


def _tell_missing(error: ModuleNotFoundError) -> int:
    """Name the extra that brings the package, if one does."""
    from ledger.core.extras import missing_extra  # noqa: PLC0415 - slow to import, and rarely needed
    from workers.cli.failures import tell  # noqa: PLC0415 - the same

    missing = missing_extra(error)
    return _tell_fault(error) if missing is None else tell(missing, as_json="--json" in sys.argv)


def _tell_fault(error: Exception) -> int:
    text = f"this should not have happened: {str(error) or 'no message'}"
    if "--json" in sys.argv:
        talk_json(_members("LEDGER", text))
    else:
        talk(f"error: {text}")
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    elif "--json" not in sys.argv:
        talk(f"hint: report it on the issue tracker of permission-ledger, with what {DEBUG}=1 shows")
    return Exit.OUR_FAULT
