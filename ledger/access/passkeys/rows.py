"""Passkeys as JSON rows."""

from __future__ import annotations

from typing import Any

from ledger.access.passkeys.state import Passkey
from ledger.core.times import format_time


def passkey_json(passkey: Passkey) -> dict[str, Any]:
    """Return one row of `passkey list`, which `verify --passkeys` also reads."""
    return {
        "credential_id": passkey.credential_id,
        "person": passkey.person,
        "name": passkey.name,
        "public_key": passkey.public_key,
        "rp_id": passkey.rp_id,
        "sign_count": passkey.sign_count,
        "vouched": passkey.vouched,
        "by": passkey.by.name,
        "at": format_time(passkey.at_ms),
        "used_at": None if passkey.used_ms is None else format_time(passkey.used_ms),
        "removed_at": None if passkey.removed_ms is None else format_time(passkey.removed_ms),
    }
