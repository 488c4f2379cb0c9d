"""Errors of policies: an unreadable file, a malformed rule, an unknown dialect or option."""

from __future__ import annotations

from ledger.core.errors import InputError


class PolicyError(InputError):
    """A policy that cannot be used as written; it is never treated as a policy without rules.

    `data` holds `key`, `layer`, `file` and `line` (1-based), as far as they are known.
    """

    code = "POLICY"
