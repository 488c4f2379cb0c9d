"""Gateways and pages on real servers, and their attackers."""

from __future__ import annotations

from tests.gateway.conftest import admin_caller, agent, ann, gateway, gateway_on_socket, ledger, sockets
from tests.gateway.inbox.fixtures import browser, inbox
from tests.support.browsers import browser_left_out

__all__ = ["admin_caller", "agent", "ann", "browser", "gateway", "gateway_on_socket", "inbox", "ledger", "sockets"]

PAGES = ["test_answer_page.py", "test_cards.py", "test_keys.py", "test_other_ports.py", "test_passkeys_page.py"]

collect_ignore = [] if browser_left_out() is None else PAGES
