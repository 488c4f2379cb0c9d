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
from ledger.stores.redis.least_rights import USER, acl_file

PASSWORD_BYTES: Final = 32
PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
"""The mode of the ACL file: the server runs as another user, and the file holds only the SHA-256 of 256 random bits."""


def write_server_user(server: str, url_file: Path, acl_path: Path) -> None:
    """Write the URL with a new password, unless it exists, and the server's ACL file for it.

    Raises InputError for a server's URL that cannot carry the password, and for a URL file that holds none.
    """
    scheme, separator, address = server.partition("://")
    if scheme not in ("redis", "rediss") or not separator or not address or "@" in address:
        raise InputError(f"`{server}` cannot carry a password; write the server like `redis://HOST:6379/0`")
    if not url_file.exists():
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        _write(url_file, f"{scheme}://{USER}:{password}@{address}\n", PRIVATE)
    parts = split_address(url_file.read_text().strip())
    if parts.username != USER or not parts.password:
        raise InputError(f"`{url_file}` holds no URL with a password of the user `{USER}`; remove it to make a new one")
    _write(acl_path, acl_file(sha256(unquote(parts.password).encode()).hexdigest()), PUBLIC)


def _write(path: Path, text: str, mode: int) -> None:
    """Write atomically, also if this process is killed meanwhile."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
