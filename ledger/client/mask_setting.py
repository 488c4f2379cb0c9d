"""The setting of masks, and the masks of a deployment."""

from __future__ import annotations

import logging
import os
import secrets
from typing import Final

from ledger.core.errors import InputError, StoreError
from ledger.masks.masking import Masks
from ledger.stores.port import Store
from ledger.stores.secrets import deployment_secret

log = logging.getLogger(__name__)

VARIABLE: Final = "PERMISSION_LEDGER_MASKS"
"""`on`, the default, or `off`: whether secrets are masked before anything is written."""

_WORDS: Final = {"": True, "on": True, "off": False}
_KEY_BYTES: Final = 32


def masks_are_on(wanted: bool | None) -> bool:
    """Return the setting: as given, else that of the environment. Raises InputError for another word there."""
    if wanted is not None:
        return wanted
    word = os.environ.get(VARIABLE, "").strip().lower()
    if word not in _WORDS:
        raise InputError(f"{VARIABLE} is `{word}`; it must be `on` or `off`")
    return _WORDS[word]


async def masks_of(store: Store) -> Masks:
    """Return the masks with the key of the deployment.

    A server that has no key and takes no writes gets none: the masks of this process then differ from all others.
    """
    try:
        key = await deployment_secret(store)
    except StoreError as error:
        log.warning("secrets are masked with a key of this process alone: %s", error)
        key = secrets.token_bytes(_KEY_BYTES)
    return Masks(key)
