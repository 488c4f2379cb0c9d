"""The one Hypothesis profile of the suite: examples are limited by count, never by time.

A deadline, or a health check of slow generation, would fail a test of logic on a busy machine.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

NAME: Final = "by count"

GUESSES: Final = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""Settings for examples guessed from a schema of ours, whose bounds discard many guesses."""


def load() -> None:
    settings.register_profile(NAME, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
    settings.load_profile(NAME)
