"""The processes that wait for an answer: one file a request, locked while its asker lives.

An agent that was killed and resumed asks for the same call under a new id. It may attach to the pending request only if
the first asker is dead. The same call has the same digest: a call in another folder, or with another environment shown,
is another one. The kernel drops a dead process's lock, so that is certain. Two askers never hold one file, so
one answer never serves two calls.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

from ledger.core.call_digests import call_digest
from ledger.core.regular_files import locked, read_regular
from workers.bridges.session_ids import folder_name
from workers.transport.place import data_folder

FOLDER: Final = "askers"
FILE_BYTES_MAX: Final = 32 * 1024

_OF_THE_CLIENT: Final = ("hook_event_name", "permission_mode")
"""Members of a hook's metadata that say how the client asks, and differ between two questions about one call."""


def digest_of(body: Mapping[str, Any], folder: str | None = None) -> str:
    """Return the digest of the call in an ask's body; `folder` is that of a call that names none."""
    metadata = body.get("metadata") or {}
    return call_digest(
        permission=body.get("permission"),
        patterns=body.get("patterns"),
        tool_name=body["tool_name"],
        tool_input=body["input"],
        cwd=body.get("cwd", folder),
        metadata={name: value for name, value in metadata.items() if name not in _OF_THE_CLIENT},
    )


class Asker:
    """The lock on a request, held until `done` or `leave`, or until this process ends."""

    def __init__(self, path: str, descriptor: int, request_id: str) -> None:
        self._path = path
        self._descriptor = descriptor
        self.request_id = request_id

    @classmethod
    def wait_for(
        cls, session: str, request_id: str, body: Mapping[str, Any], owner: str | None = None, folder: str | None = None
    ) -> Self | None:
        """Lock a request as its asker; None if another process has it, or if the folder cannot be written.

        `body` and `folder` are those of `digest_of`. `owner` names the agent, for askers that are shorter-lived processes
        than their agent.
        """
        path = _path(session, request_id)
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103,PTH120 - pathlib is slow
            descriptor = locked(path, os.O_RDWR | os.O_CREAT)
            if descriptor is None:
                return None
            os.ftruncate(descriptor, 0)
            digest = digest_of(body, folder)
            said = {"request_id": request_id, "digest": digest, "cwd": body.get("cwd", folder), "owner": owner}
            os.pwrite(descriptor, json.dumps(said).encode(), 0)
        except OSError:
            return None
        return cls(path, descriptor, request_id)

    @classmethod
    def take_over(cls, session: str, request_id: str) -> Self | None:
        """Lock a request whose asker is gone; None if the asker lives, or if another process was first.

        Call it only for a request that is known to be pending. In the reverse order an answer that arrived between the
        check and the lock would be lost.
        """
        path = _path(session, request_id)
        try:
            descriptor = locked(path, os.O_RDWR)
        except OSError:
            return None
        return None if descriptor is None else cls(path, descriptor, request_id)

    def done(self) -> None:
        """Release the request, which is settled or has no asker any more."""
        with suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108
        self.leave()

    def leave(self) -> None:
        """Stop waiting while the request stays pending: the next asker of the same call may take it over."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def folder_of(session: str, request_id: str) -> str | None:
    """Return the folder of a request that a process waits for, or waited for when it died."""
    cwd = _said(_path(session, request_id)).get("cwd")
    return cwd if isinstance(cwd, str) else None


def waiting_for(session: str, digest: str) -> list[str]:
    """Return the requests of a call that a process waits for, or waited for when it died."""
    return _where(session, "digest", digest)


def left_by(session: str, owner: str) -> list[Asker]:
    """Take over and return the requests of an agent whose askers are gone."""
    found = (Asker.take_over(session, request_id) for request_id in _where(session, "owner", owner))
    return [asker for asker in found if asker is not None]


def _where(session: str, name: str, value: str) -> list[str]:
    folder = os.path.dirname(_path(session, ""))  # noqa: PTH120
    try:
        files = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []
    found = (_said(os.path.join(folder, file)) for file in files)  # noqa: PTH118
    return [str(said["request_id"]) for said in found if said.get(name) == value and "request_id" in said]


def _said(path: str) -> dict[str, Any]:
    try:
        said = json.loads(read_regular(path, FILE_BYTES_MAX))
    except (OSError, ValueError):
        return {}  # just made and not written yet, or gone
    return said if isinstance(said, dict) else {}


def _path(session: str, request_id: str) -> str:
    name = hashlib.sha256(request_id.encode()).hexdigest()[:32]
    return os.path.join(data_folder(), FOLDER, folder_name(session), name)  # noqa: PTH118
