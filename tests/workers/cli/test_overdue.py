"""`pending` while no expiry worker runs: what its deadline has ended is not listed, and stderr says that nothing settled it."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until
from workers.cli import pending


def test_an_overdue_request_is_named_as_such_and_not_listed(
    ledger: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "LATE_MS", 0)
    ledger("ask", "ses_1", "bash", "git push", "--no-wait", "--unattended", "20ms", code=7)
    ledger("ask", "ses_2", "bash", "make", "--id", "r2", "--no-wait", code=7)
    wait_until(lambda: "overdue" in ledger("pending", "--json", code=0).err, "a deadline that has passed")
    ran = ledger("pending", "--json", code=0)
    assert [row["request_id"] for row in ran.rows] == ["r2"]
    assert ran.err.startswith("warning: overdue: a deadline of session `ses_1` passed ")
    assert "start `permission-ledger worker expiry`" in ran.err
    assert "overdue" not in ledger("pending", "--session", "ses_2", code=0).err
    assert "overdue" in ledger("pending", "--session", "ses_1", code=0).err
