"""Hooks of Claude Code that the gateway answers over HTTP: for whom they are offered, their token, and what is amiss.

The token goes with every call to the port of the gateway, so it is one for this hook alone: it asks, in one project.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ledger import Ledger
from ledger.client.tokens import PREFIX, SECRET_BYTES, parse_token
from ledger.core.errors import LedgerError
from ledger.core.ids import new_id
from workers.bridges.hook_entries import AGENT, TOKEN_VARIABLE, InstallNote
from workers.bridges.options import BridgeOptions
from workers.bridges.session_ids import id_of
from workers.cli.output import talk
from workers.gateway.announcement import read_address
from workers.gateway.server import users_listening_on
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import (
    ADDRESS,
    BridgeError,
    GatewayRefusalError,
    ServerAddress,
    UnreachableError,
    data_folder,
    parse_place,
)

VERSION_MIN: Final = (2, 1, 295)
"""The first version of Claude Code that blocks a call when a hook of `"onFailure": "block"` fails."""

VERSION_SECONDS: Final = 20
NAME_CHARS_MAX: Final = 64
ROUTE: Final = f"/v1/hooks/{AGENT}"

T = TypeVar("T")


class HttpHook(NamedTuple):
    """A hook at a gateway. `token` is written into the settings before it is in force, unless it was there already."""

    url: str
    token: str
    project: str
    folders: tuple[str, ...]
    is_known: bool

    def begin(self) -> None:
        """Make the token, and try it. Raises BridgeError, and leaves no token then."""
        if not self.is_known:
            _run(self._make_token())
        if (why := _refused(self.url, self.token)) is not None:
            if not self.is_known:
                revoke(self.token)
            raise BridgeError(f"{why}; nothing was written")

    async def _make_token(self) -> None:
        token_id, secret = parse_token(self.token)
        name = f"claude hook of {Path(self.folders[0]).name}"[:NAME_CHARS_MAX]
        async with Ledger.connect() as ledger:
            await ledger.tokens.create(
                name,
                "agent",
                projects=(self.project,),
                folders=self.folders,
                token_id=token_id,
                secret=secret,
            )


def hook_for(options: BridgeOptions, config: Path, known: str | None) -> HttpHook:
    """Return the hook for the working folder, with the token of an earlier installation if that is in force.

    `config` is the folder of Claude Code's own settings. Raises BridgeError where it is not offered.
    """
    if options.rules is not None:
        raise BridgeError(
            "with --http the gateway's own rules judge: name the file in `permission-ledger.toml` (`permission-ledger "
            "init`), or start the gateway with `--rules claude=FILE`"
        )
    if (old := old_client()) is not None:
        raise BridgeError(f"{old}; leave out --http")
    url, folder = _loopback_gateway(), str(Path.cwd())
    # As Claude Code names the folder of a project's transcripts.
    transcripts = config / "projects" / re.sub(r"[^A-Za-z0-9]", "-", folder)
    project, folders = options.project or id_of(folder), (folder, str(transcripts))
    if known is not None and _reach(url, known) == ([project], list(folders)):
        return HttpHook(url, known, project, folders, is_known=True)
    token = f"{PREFIX}_{new_id('tok')}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return HttpHook(url, token, project, folders, is_known=False)


def revoke(token: str) -> None:
    """Revoke a token that no longer stands in the settings, or tell how to."""
    token_id = _id_of(token)
    try:
        _run(_revoke(token_id))
    except BridgeError as error:
        talk(f"the token of the hook stays in force ({error.text}): permission-ledger token revoke {token_id}")


def old_client() -> str | None:
    """Return why the `claude` on the PATH would let calls run while the gateway is away; None if it would not."""
    program = shutil.which("claude")
    if program is None:
        return "there is no `claude` on the PATH, whose version could be looked at"
    try:
        done = subprocess.run(  # noqa: S603 - the user's own client
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"`{program} --version` does not answer"
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    if found is None:
        return f"`{program} --version` names no version"
    if tuple(map(int, found.groups())) >= VERSION_MIN:
        return None
    newest = ".".join(map(str, VERSION_MIN))
    return (
        f"`{program}` is Claude Code {found[0]}: before {newest} a hook over HTTP that fails lets the call run by the "
        "client's own rules"
    )


def _loopback_gateway() -> str:
    """Return the address of this user's gateway on loopback. Raises BridgeError."""
    known = read_address(Path(data_folder()))
    for url in (os.environ.get(ADDRESS), known.get("inbox"), known.get("url")):
        if isinstance(url, str) and url.startswith("http://") and (place := parse_place(url, None)).is_local:
            if _is_foreign(place, known.get("process")):
                raise BridgeError(f"the program at `{place.url}` is another user's, and would get the hook's token")
            return place.url
    raise BridgeError(
        f"--http is for a gateway of yours on this machine: start `permission-ledger up`, or set {ADDRESS}=http://127.0.0.1:PORT"
    )


def _is_foreign(place: ServerAddress, process: object = None) -> bool:
    """Return whether another user's program listens at an address; `process` is that of the announced gateway."""
    users = users_listening_on(place.port)
    if users:
        return users != {os.geteuid()}
    try:
        if isinstance(process, int):
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return False


def _id_of(token: str) -> str:
    """Return the id of a token, which a person may have edited in the settings."""
    try:
        return parse_token(token)[0]
    except LedgerError:
        return "unreadable"


async def _revoke(token_id: str) -> None:
    async with Ledger.connect() as ledger:
        await ledger.tokens.revoke(token_id, reason="the hook was removed")


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except LedgerError as error:
        raise BridgeError(error.text) from error


async def _asked(url: str, token: str) -> dict[str, Any]:
    async with GatewayClient(lambda: parse_place(url, token), grace=0) as client:
        return await client.call("GET", ROUTE)


def _refused(url: str, token: str) -> str | None:
    """Return why the gateway at an address does not answer the hook with this token; None if it does."""
    try:
        found = asyncio.run(_asked(url, token))
    except UnreachableError:
        return f"nothing answers at `{url}`"
    except GatewayRefusalError as error:
        return f"the gateway at `{url}` does not take the hook's token: {error.text}"
    if found.get("token_id") != _id_of(token):
        return f"what answers at `{url}` is no gateway of this ledger"
    if not found.get("has_rules"):
        return (
            f"the gateway at `{url}` has no rules of Claude Code for this project: run `permission-ledger init`, or start it "
            "with `--rules claude=FILE`"
        )
    return None


def _reach(url: str, token: str) -> tuple[Any, Any] | None:
    """Return the projects and folders of a token; None if it is not in force."""
    try:
        found = asyncio.run(_asked(url, token))
    except BridgeError:
        return None
    return found.get("projects"), found.get("folders")


def notes_of(url: str, token: str | None) -> list[InstallNote]:
    """Return what is to be said of hooks that ask the gateway at `url`."""
    old = old_client()
    notes = [] if old is None else [InstallNote(False, old)]
    if token is None:
        return [*notes, InstallNote(False, f"`env` has no {TOKEN_VARIABLE}: every call is blocked; install it again")]
    token_id = _id_of(token)
    if _is_foreign(parse_place(url, None)):
        why = f"another user's program listens at `{url}` and gets the hook's token with each call"
        return [*notes, InstallNote(False, f"{why}: permission-ledger token revoke {token_id}")]
    refused = _refused(url, token)
    if refused is None:
        return [*notes, InstallNote(True, f"asks the gateway at {url}, with the token {token_id}")]
    why = "every call is blocked, and whoever binds the port gets the hook's token"
    return [*notes, InstallNote(False, f"{refused}: {why} ({token_id})")]
