"""`inbox`: which gateway its link leads to."""

from __future__ import annotations

from tests.support.command_line import CommandLine


def test_the_link_leads_to_the_gateway_that_the_environment_names(ledger: CommandLine) -> None:
    environment = {"PERMISSION_LEDGER_GATEWAY": "https://ledger.example/"}
    link = ledger("inbox", "--json", code=0, **environment).row["link"]
    assert link.startswith("https://ledger.example/sign-in?code=plt_")
    named = ledger("inbox", "--gateway", "http://10.0.0.5:8420", "--json", code=0, **environment).row["link"]
    assert named.startswith("http://10.0.0.5:8420/sign-in?code=plt_")


def test_an_address_that_no_browser_opens_is_refused(ledger: CommandLine) -> None:
    ran = ledger("inbox", "--gateway", "unix:/run/gateway.sock", code=12)
    assert "is not an address for a browser" in ran.err
