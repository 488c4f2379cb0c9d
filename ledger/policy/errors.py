"""What is wrong with a policy: an unreadable file, a misshapen rule, an unknown dialect or option."""

from __future__ import annotations

from ledger.core.errors import InputError


class PolicyError(InputError):
    """A policy cannot be used as it is written; it is never taken for "no rules".

    `data` holds what is known of `key`, `layer`, `file` and `line` (1-based).
    """

    code = "POLICY"
