"""A policy from outside has no member that would be passed over: its rules would count otherwise than they say."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.errors import InputError
from workers.gateway.work import given_policy

RULE = {"permission": "bash", "pattern": "*", "action": "allow"}


@pytest.mark.parametrize(
    ("policy", "unknown"),
    [
        ({"layer": []}, "layer"),
        ({"layers": [{"name": "project", "trustd": False}]}, "layers[0].trustd"),
        (
            {"layers": [{"name": "project", "rules": [RULE, {**RULE, "answerBy": "passkey"}]}]},
            "layers[0].rules[1].answerBy",
        ),
        ({"layers": [{"name": "p", "demands": [{"aprovers": 2}]}]}, "layers[0].demands[0].aprovers"),
    ],
)
def test_an_unknown_member_of_a_policy_is_refused_by_its_place(policy: dict[str, Any], unknown: str) -> None:
    with pytest.raises(InputError) as caught:
        given_policy(policy)
    assert f"`{unknown}`" in caught.value.text


def test_a_file_of_a_layer_and_options_have_members_of_their_own() -> None:
    policy = {"layers": [{"name": "p", "config": {"any": 1}}], "options": {"profile": "faithful"}}
    assert given_policy(policy).layers[0].config == {"any": 1}
