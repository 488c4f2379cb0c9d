from __future__ import annotations

import logging

from workers.runtime.logs import TextLines

GITHUB = "ghp" + "_Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp9Oo8N"


def test_a_line_of_a_process_log_holds_no_known_shape_of_a_secret() -> None:
    error = ValueError(f"bad header: Authorization: Bearer {GITHUB}")
    about = (type(error), error, None)
    record = logging.LogRecord("ledger", logging.WARNING, "", 1, "asking for %s", (f"curl -u a:{GITHUB}",), about)
    line = TextLines("gateway").format(record)
    assert "curl -u a:***" in line
    assert GITHUB not in line
