"""The files of the inbox as they are sent: read once, compressed once, with an `etag` of their content."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

MEDIA_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}
"""Servable file types; a file of another type prevents the gateway from starting."""

WORKER: Final = "js/worker.js"
"""The service worker, which browsers load from another address."""

SHELL: Final = "inbox.html"
"""The one page; its address selects the part that is shown."""


class StaticFile(msgspec.Struct, frozen=True):
    """A file to serve. `etag` changes with the content, so that a browser can revalidate its copy."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files by their path below the folder `static`, for example `js/card.js`."""
    return {path: _read(path, file) for path, file in _below(files(__package__) / "static", "")}


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{prefix}{one.name}"
        found += _below(one, f"{path}/") if one.is_dir() else [(path, one)]
    return found


def _read(path: str, file: Traversable) -> StaticFile:
    content = file.read_bytes()
    return StaticFile(
        media_type=MEDIA_TYPES[path.rpartition(".")[2]],
        content=content,
        compressed=gzip.compress(content, mtime=0),
        etag=f'"{sha256(content).hexdigest()[:32]}"',
    )
