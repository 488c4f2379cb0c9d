"""Rules given by a program."""

from __future__ import annotations

import pytest

from ledger import DeniedError, InputError, Ledger


async def test_an_object_without_a_permission_section_is_refused_and_never_means_no_rules(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="a whole configuration, with `permission` in it; this one has only `bash`"):
        await ledger.session("ses_1", rules={"bash": "deny"})


async def test_a_whole_configuration_is_read_in_its_own_form(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permission": {"bash": "deny"}})

    with pytest.raises(DeniedError):
        await session.ask("bash", ["ls"])
