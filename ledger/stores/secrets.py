"""The keys that all processes of a deployment sign with, noted in the store."""

from __future__ import annotations

import secrets
from typing import Final

from ledger.stores.store import Store

NOTES: Final = "secrets"
"""The name of the notes; not among those of workers, whose notes nothing depends on."""

_SECRET: Final = "secret"  # noqa: S105 - the name of a field
_LINK_KEY: Final = "link_key"

SECRET_BYTES: Final = 32


async def deployment_secret(store: Store) -> bytes:
    """Return the random signing key of this deployment; the first process that needs it makes it."""
    found = (await store.notes(NOTES)).get(_SECRET)
    if found is None:
        await store.note(NOTES, _SECRET, secrets.token_hex(SECRET_BYTES).encode(), once=True)
        found = (await store.notes(NOTES))[_SECRET]
    return bytes.fromhex(found.decode())


async def link_key(store: Store) -> bytes:
    """Return the current key of answer links, the secret until it is replaced; do not cache it."""
    found = (await store.notes(NOTES)).get(_LINK_KEY)
    return await deployment_secret(store) if found is None else bytes.fromhex(found.decode())


async def replace_link_key(store: Store) -> None:
    """Replace the key of answer links with a new random one; this invalidates all issued links."""
    await store.note(NOTES, _LINK_KEY, secrets.token_hex(SECRET_BYTES).encode())
