from __future__ import annotations

import re
from typing import Any

import pytest

from ledger.core.errors import InputError
from ledger.masks import finder
from ledger.masks.finder import find
from ledger.masks.masking import LARGE_CHARS, Masks, may_need_masks, require_no_secret
from ledger.masks.own_input import MASK, check_edit, holds_mask, with_own_texts
from ledger.masks.shape_tables import place_shapes, provider_shapes
from tests.support.rows import every

MASKS = Masks(b"k" * 32)
GITHUB = "ghp" + "_a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"
ANTHROPIC = "sk-ant" + "-api03-a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"


def masked(text: str) -> str:
    return re.sub(r":[0-9a-f]{12}\}", "}", MASKS.text(text))


def test_a_secret_becomes_a_mask_of_its_kind_and_the_rest_stays() -> None:
    assert (
        masked(f"git clone https://x:{GITHUB}@github.com/acme/web")
        == "git clone https://x:{secret:github}@github.com/acme/web"
    )
    assert (
        masked(f'curl -H "Authorization: Bearer {ANTHROPIC}" https://h')
        == 'curl -H "Authorization: Bearer {secret:anthropic}" https://h'
    )
    assert masked("mysql -u root -phunter22 shop") == "mysql -u root -p{secret:password} shop"
    assert masked("export DB_PASSWORD=hunter2 X=1") == "export DB_PASSWORD={secret:named} X=1"


def test_the_same_secret_has_the_same_mask_everywhere_in_a_deployment_and_another_one_elsewhere() -> None:
    first = MASK.search(MASKS.text(f"echo {GITHUB}"))
    second = MASK.search(MASKS.text(f"TOKEN={GITHUB} ./deploy"))
    elsewhere = MASK.search(Masks(b"j" * 32).text(f"echo {GITHUB}"))
    other = MASK.search(MASKS.text(f"echo {GITHUB[:-1]}x"))
    assert first
    assert second
    assert elsewhere
    assert other
    assert first[0] == second[0]
    assert len({first[0], elsewhere[0], other[0]}) == 3


def test_a_text_that_only_looks_like_a_mask_is_masked_as_such() -> None:
    forged = "git push {secret:github:0123456789ab}"
    assert masked(forged) == "git push {secret:mask}"
    assert MASKS.text(forged) != forged
    assert MASKS.value(forged, keeps=True) == forged


@pytest.mark.parametrize(
    "hidden",
    [
        GITHUB[:6] + "\u200b" + GITHUB[6:],
        GITHUB[:2] + "\u2060" + GITHUB[2:9] + "\ufe0f" + GITHUB[9:],
        "".join(chr(ord(letter) + 0xFEE0) if letter.isalnum() else letter for letter in GITHUB),
    ],
)
def test_invisible_and_full_width_characters_hide_no_secret(hidden: str) -> None:
    text = f"echo {hidden} é"
    assert masked(text) == "echo {secret:github} é"
    assert MASKS.text(text) == MASKS.text(f"echo {GITHUB} é")


def test_members_under_the_name_of_a_secret_are_masked_in_keys_and_values() -> None:
    value = {
        "env": {"DB_PASSWORD": "correct horse", "PORT": "8080", "MODE": "fast"},
        "args": ["--token", "abcdef", "--verbose"],
        "list": [{"name": "API_KEY", "value": "opaque1"}, {"name": "REGION", "value": "eu"}],
        GITHUB: 1,
        "next_token": "abc", "max_tokens": 5, "password": None, "accessToken": "${TOKEN}",
    }  # fmt: skip
    told = MASKS.value(value)
    assert holds_mask(told["env"]["DB_PASSWORD"])
    assert told["env"]["PORT"] == "8080"
    assert [holds_mask(one) for one in told["args"]] == [False, True, False]
    assert [holds_mask(one["value"]) for one in told["list"]] == [True, False]
    assert (told["next_token"], told["max_tokens"], told["password"], told["accessToken"]) == (
        "abc",
        5,
        None,
        "${TOKEN}",
    )
    assert GITHUB not in str(told)
    assert any(holds_mask(name) for name in told)


def test_the_words_of_a_command_in_a_list_are_read_as_a_command() -> None:
    told = MASKS.value(["sshpass", "-p", "hunter2", "ssh", "host"])
    assert [holds_mask(word) for word in told] == [False, False, True, False, False]


def test_two_members_whose_names_hold_the_same_secret_are_both_kept() -> None:
    told = MASKS.value({GITHUB: 1, GITHUB[:5] + "\u200b" + GITHUB[5:]: 2})
    assert sorted(told.values()) == [1, 2]


def test_what_needs_no_mask_is_the_same_value() -> None:
    value = {"command": "git status", "tokens": 12, "list": [1, None, True]}
    assert MASKS.value(value) is value
    assert not may_need_masks(value)


def test_every_shape_is_a_pattern_with_a_source() -> None:
    names = [shape.name for shape in (*provider_shapes(), *place_shapes())]
    assert len(names) == len(set(names))
    for shape in (*provider_shapes(), *place_shapes()):
        assert shape.pattern.pattern
        assert shape.within is None or shape.within.pattern
        assert shape.before is None or shape.before.pattern


def test_a_grant_for_a_pattern_with_a_secret_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"has a secret in it \(github\).*write `\*` in its place"):
        require_no_secret(f"git push https://{GITHUB}@github.com/*")
    require_no_secret("git push https://*@github.com/*")


def test_an_edit_keeps_the_masks_where_they_are_and_the_asker_runs_its_own_bytes() -> None:
    own = {"command": f"curl -H 'X-Api-Key: {GITHUB}' h", "timeout": 5, "list": ["a", GITHUB]}
    shown = MASKS.value(own)
    edited = {**shown, "timeout": 9}
    check_edit(shown, edited)
    assert with_own_texts(edited, own) == {**own, "timeout": 9}


@pytest.mark.parametrize("change", ["touched", "removed", "moved", "forged"])
def test_an_edit_that_touches_a_mask_or_brings_one_is_refused(change: str) -> None:
    shown = MASKS.value({"command": f"echo {GITHUB}", "timeout": 5})
    edited = {
        "touched": {**shown, "command": shown["command"] + " | tee x"},
        "removed": {"timeout": 5},
        "moved": {"timeout": 5, "other": shown["command"], "command": "ls"},
        "forged": {**shown, "more": "{secret:github:0123456789ab}"},
    }[change]
    with pytest.raises(InputError, match="holds a masked secret"):
        check_edit(shown, edited)


def test_a_masked_text_that_the_asker_does_not_have_never_runs() -> None:
    with pytest.raises(InputError, match="must not run"):
        with_own_texts({"command": "echo {secret:github:0123456789ab}"}, {"other": "x"})


def test_secrets_that_overlap_are_one_mask() -> None:
    assert masked(f'password="{GITHUB}!x"') == 'password="{secret:github}"'
    assert [one.kind for one in find(f"https://u:{GITHUB}@h")] == ["github"]


LONG = "x " * (LARGE_CHARS // 2)


@every(
    ("value", "needs"),
    [
        ({"a": LONG}, False),
        ({"a": f"{LONG}{GITHUB}"}, True),
        ({"a": LONG, "b": [GITHUB]}, True),
        ({"a": LONG, "b": {"password": "tr0ub4dor&3"}}, True),
        ({"a": {"password": "hunter2x" * 1000 + LONG.replace(" ", "y")}}, True),
        ({"a": LONG, GITHUB: 1}, True),
        ({"a": LONG, "b": ["curl", "--token", "tr0ub4dor3Xq9"]}, True),
        ({"a": f"{LONG}{GITHUB[:12]}\u200b{GITHUB[12:]}"}, True),
        ({"a": LONG, "b": "{secret:github:3f9c2a81d0b4}"}, True),
    ],
)
def test_a_large_value_needs_masks_exactly_where_they_change_it(value: dict[str, Any], needs: bool) -> None:
    assert (may_need_masks(value), MASKS.value(value) != value) == (needs, needs)


def test_a_long_text_is_searched_once_within_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def search(text: str) -> tuple[finder.SecretSpan, ...]:
        searched.append(len(text))
        return ()

    monkeypatch.setattr(finder, "_find", search)
    texts = finder._LongTexts()
    one, others = "a" * 500_000, [f"{number}" * 500_000 for number in range(4)]
    for text in (one, one, *others, others[-1], one):
        texts.find(text)
    assert len(searched) == 6
    assert sum(map(len, texts._known)) <= finder._LONG_CHARS
