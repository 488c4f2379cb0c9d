"""The divided views of the log: those with a field for each session, request or grant.

That of the checkpoints is in `ledger.stores.divided`, because the store itself compares them.
"""

from __future__ import annotations

from typing import Final

from ledger.stores.divided import divided

REQUESTS_VIEW: Final = divided("requests", 32)
"""Fingerprints of each request id and its session, by the request id."""

GRANTS_VIEW: Final = divided("grants", 4)
"""Fingerprints of each grant's id and its stream, revoked ones included, by the grant's id."""

PEOPLE_VIEW: Final = divided("people", 4)
"""The sessions in which each person has answered, by the session."""

LATEST_VIEW: Final = divided("latest", 4)
"""All sessions in order of their last event, by the session."""

LATEST_WITHIN_VIEW: Final = divided("latest-within", 4)
"""The sessions in order of their last event in each list of some, by the session."""

OUTCOMES_VIEW: Final = divided("outcomes", 16)
"""The number of each session's requests with each outcome, by the session."""

USES_VIEW: Final = divided("uses", 16)
"""The sessions in which each grant of a project let a call through, by the session."""

USED_VIEW: Final = divided("used", 4)
"""The last time at which each grant let a call through, by the grant's id."""
