"""docs/reference/http.md has every route, its members, and the status of every error code."""

from __future__ import annotations

import re
from pathlib import Path

from litestar.handlers import HTTPRouteHandler

from ledger import Ledger
from workers.gateway.app import make_app
from workers.gateway.bodies import OpenSession, TimeoutsBody
from workers.gateway.gateway import Gateway
from workers.gateway.inboxes import PendingFilter, find_pending
from workers.gateway.principals import Principal
from workers.gateway.problems import STATUS, STATUS_OF_HTTP
from workers.gateway.settings import GatewaySettings

PAGES = Path(__file__).parents[2] / "docs" / "reference"
MATRIX = "who-may-do-what.md"
ROW = re.compile(r"^- `(GET|PUT|POST|DELETE) (\S+)`: ", re.MULTILINE)
CODES = re.compile(r"^- (\d{3}) ((?:`[A-Z_]+` ?)+):", re.MULTILINE)


async def test_every_route_stands_there() -> None:
    """Their roles are on another page, `who-may-do-what.md`."""
    written = {found for path in PAGES.glob("*.md") if path.name != MATRIX for found in ROW.findall(path.read_text())}
    async with Ledger.connect("memory://") as ledger:
        app = make_app(Gateway(ledger, GatewaySettings()))
    served = {
        (method, route.path_format)
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        if isinstance(handler, HTTPRouteHandler) and "{path" not in route.path_format
        for method in set(handler.http_methods) - {"OPTIONS", "HEAD"}
    }
    assert served - written == {("GET", "/openapi.json/openapi.json")}


def test_every_member_of_an_opening_stands_there() -> None:
    section = (PAGES / "http.md").read_text().split("\n### Opening a session\n")[1].split("\n### ")[0]
    rows = re.findall(r"^- ((?:`\w+` ?)+)(?:\([^)]*\))?: (.*)$", section, re.MULTILINE)
    written = [name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(written) == sorted(OpenSession.__struct_fields__)
    times = next(meaning for cell, meaning in rows if cell.strip() == "`timeouts`")
    assert set(re.findall(r'"(\w+)"', times)) == set(TimeoutsBody.__struct_fields__)


async def test_every_member_of_a_pending_row_stands_there() -> None:
    section = (PAGES / "http.md").read_text().split("\n### A pending row\n")[1].split("\n### ")[0]
    written = {
        name
        for cell in re.findall(r"^- ((?:`[\w?]+` ?)+):", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }
    async with Ledger.connect("memory://") as ledger:
        session = await ledger.session("ses_1", rules=[])
        root = Principal(name="root", role="admin")
        await session.submit_tool("bash", {"command": "sudo ls > out"}, always=["sudo *"])
        [row] = (await find_pending(Gateway(ledger, GatewaySettings()), root, PendingFilter(), None, 10))["pending"]
    # These are left out when empty, as here.
    left_out = {"still_asked", "offers", "operands", "demands", "demanded", "approvals", "round", "reopened"}
    assert {*row, *left_out} == written


def test_every_code_stands_there_with_its_status() -> None:
    written = {
        code: int(status)
        for status, codes in CODES.findall((PAGES / "http.md").read_text())
        for code in re.findall(r"[A-Z_]+", codes)
    }
    assert {**STATUS, **STATUS_OF_HTTP}.items() - written.items() == set()
