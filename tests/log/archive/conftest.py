"""Ledgers on every store in turn, as the tests of the API open them."""

from __future__ import annotations

from tests.api.conftest import ledger, open_ledger, url

__all__ = ["ledger", "open_ledger", "url"]
