"""The one Hypothesis profile of the suite: examples are limited by count, never by time.

A deadline, or a health check of slow generation, would fail a test of logic on a busy machine. The short suite tries the
same examples in each run, since what it says should be about a change and not about luck; `make test-all` tries new ones.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

from tests.support.programs import all_are_wanted

NAME: Final = "by count"

GUESSES: Final = settings(deadline=None, suppress_health_check=list(HealthCheck))
"""Settings for examples guessed from a schema of ours, whose bounds discard many guesses."""


def load() -> None:
    settings.register_profile(
        NAME,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
        derandomize=not all_are_wanted(),
    )
    settings.load_profile(NAME)
