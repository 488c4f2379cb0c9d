"""The warnings of redis-py's cluster client that cluster tests tolerate, and other tests do not.

It drops nodes whose connections are open when a failover cuts its look at the cluster short. Their sockets are closed
when they are collected, so what a cluster test left is collected before the next test begins.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

import pytest

MARKER: Final = "cluster"

_DROPPED: Final = (
    "<socket",
    "<function _SelectorTransport.__del__",
    "<function StreamWriter.__del__",
    "<function AbstractConnection.__del__",
    "<function ClusterNode.__del__",
)


def let_through(items: list[pytest.Item]) -> None:
    """Mark the tests of a cluster with the filters for what its client drops."""
    for item in items:
        if item.get_closest_marker(MARKER):
            for name in _DROPPED:
                message = f"ignore:Exception ignored in. {name}:pytest.PytestUnraisableExceptionWarning"
                item.add_marker(pytest.mark.filterwarnings(message))


def collect_after(item: pytest.Item) -> None:
    """Collect what a test of a cluster dropped.

    pytest has looked at the test's own messages by then: what comes now it would tell of the next test, whose filters
    are others.
    """
    if not item.get_closest_marker(MARKER):
        return
    told = sys.unraisablehook

    def tell_others(message: sys.UnraisableHookArgs) -> None:
        if not repr(message.object).startswith(_DROPPED):
            told(message)

    sys.unraisablehook = tell_others
    try:
        gc.collect()
    finally:
        sys.unraisablehook = told
