"""The command line on a real server, as its own tests have it."""

from __future__ import annotations

from tests.workers.cli.conftest import durable_server, ledger, server

__all__ = ["durable_server", "ledger", "server"]
