"""A session of many requests is asked in, answered, shown and expired within the room that a process gives to folds.

The fold grows by 450 bytes a request, 100,000 take 45 MB of the 256 MB that are the default. What is pending at once
takes 4 kB each beside that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import pytest

from ledger.log.fold_cache import MB, VARIABLE
from tests.support.servers import RealServer

REQUESTS: Final = 10_000
ROOM_MB: Final = 32
FOLD_BYTES: Final = 500
"""The most that a settled request may take; all of a fold that is not settled requests takes less than 1 MB."""


@pytest.mark.slow
def test_a_session_of_many_requests_lives_within_the_room_for_folds(server: RealServer) -> None:
    words = (sys.executable, "-m", "tests.projections.many_requests", server.url, str(REQUESTS))
    environment = {**os.environ, VARIABLE: str(ROOM_MB)}
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["outcomes"] == {"allowed": REQUESTS // 2, "expired": REQUESTS // 2}
    assert found["grown_bytes"] <= ROOM_MB * MB
    assert found["fold_bytes"] <= REQUESTS * FOLD_BYTES + MB
