"""The site, and packages as people run them, where the tools are there."""

from __future__ import annotations

from tests.support.release_tools import release_tests_left_out

collect_ignore = [*release_tests_left_out()]
