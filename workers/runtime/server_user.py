"""The password files that a server and the ledger's processes share, made at their first start."""

from __future__ import annotations

import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from ledger.core.addresses import split_address
from ledger.core.errors import InputError
from ledger.stores.redis.least_rights import ARCHIVER, USER, acl_file

PASSWORD_BYTES: Final = 32
PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
"""The mode of the ACL file: the server runs as another user, and the file holds only the SHA-256 of 256 random bits."""


def write_server_user(server: str, url_file: Path, acl_path: Path, archiver_url_file: Path | None = None) -> None:
    """Write the URL with a new password, unless it exists, and the server's ACL file for it; the archiver's too.

    Raises InputError for a server's URL that cannot carry the password, and for a URL file that holds none.
    """
    scheme, separator, address = server.partition("://")
    if scheme not in ("redis", "rediss") or not separator or not address or "@" in address:
        raise InputError(f"`{server}` cannot carry a password; write the server like `redis://HOST:6379/0`")
    digest = _digest(url_file, USER, f"{scheme}://{{}}@{address}\n")
    other = None if archiver_url_file is None else _digest(archiver_url_file, ARCHIVER, f"{scheme}://{{}}@{address}\n")
    _write(acl_path, acl_file(digest, other), PUBLIC)


def _digest(url_file: Path, user: str, url: str) -> str:
    """Return the SHA-256 of the password in a URL file, which is made if it is missing."""
    if not url_file.exists():
        _write(url_file, url.format(f"{user}:{secrets.token_urlsafe(PASSWORD_BYTES)}"), PRIVATE)
    parts = split_address(url_file.read_text().strip())
    if parts.username != user or not parts.password:
        raise InputError(f"`{url_file}` holds no URL with a password of the user `{user}`; remove it to make a new one")
    return sha256(unquote(parts.password).encode()).hexdigest()


def _write(path: Path, text: str, mode: int) -> None:
    """Write atomically, also if this process is killed meanwhile."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
