"""`--attended` and `--unattended` of `serve`, `up`, bridges and hooks, and the limits of runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from workers.bridges.hook_entries import hook_words
from workers.bridges.hooks.settings import HookSettings
from workers.bridges.options import BridgeOptions, opening
from workers.cli.installing import CODEX
from workers.cli.long_running import serve
from workers.cli.up import _gateway, _words, up


@pytest.mark.parametrize(
    "words",
    [
        ["ask", "s", "bash", "x"],
        ["serve"],
        ["up"],
        ["bridge", "acp", "--", "true"],
        ["bridge", "claude", "--install"],
        ["bridge", "codex", "--settings"],
    ],
    ids=" ".join,
)
def test_what_is_no_duration_is_refused_at_once_everywhere(ledger: CommandLine, words: list[str]) -> None:
    command, rest = words[:2] if words[0] in {"bridge", "hook"} else words[:1], words
    ran = ledger(*command, "--unattended", "soon", *rest[len(command) :], code=12)
    assert ran.err.startswith("error: the --unattended `soon` is not a duration; write it like `60s`")
    assert ran.out == ""


@pytest.mark.parametrize("words", [["ask", "s", "bash", "x"], ["run", "s", "--", "x"], ["serve"], ["up"]], ids=" ".join)
def test_limits_of_runs_that_are_out_of_bounds_are_refused_at_once(ledger: CommandLine, words: list[str]) -> None:
    refused = ledger(words[0], "--claim-timeout", "none", *words[1:], code=12)
    assert refused.err.startswith("error: the --claim-timeout cannot be `none`")
    refused = ledger(words[0], "--approval-lifetime", "0s", *words[1:], code=12)
    assert refused.err.startswith("error: the --approval-lifetime of 0 ms is out of range")


def test_the_settings_of_runs_that_an_ask_states_are_those_of_its_session(ledger: CommandLine) -> None:
    typed = ("--approval-lifetime", "10m", "--claim-timeout", "5m", "--when-frozen", "deny")
    ledger("ask", "ses_1", "bash", "make", *typed, "--no-wait", code=7)
    ledger("ask", "ses_1", "bash", "make test", "--no-wait", code=7)
    (opened,) = [row for row in ledger("log", "ses_1", "--json", code=0).rows if row["type"] == "session_opened"]
    settings = opened["event"]["settings"]
    assert (settings["approval_lifetime_ms"], settings["claim_timeout_ms"]) == (600_000, 300_000)
    assert settings["when_frozen"] == "deny"


def test_up_hands_every_option_of_serve_to_its_gateway() -> None:
    typed = {"approval_lifetime": "10m", "unattended": "8h", "hosts": ("a", "b"), "oidc": Path("o.toml")}
    words = _words(_gateway, {**typed, "no_tokens": False, "no_masks": True, "quotas": ()})
    assert words == [
        *("--host", "a", "--host", "b", "--unattended", "8h", "--approval-lifetime", "10m"),
        *("--no-masks", "--oidc", "o.toml"),
    ]
    gateways = {str(option.name) for option in _gateway.params}
    own = {str(option.name) for option in serve.params if not getattr(option, "hidden", False)}
    assert own - gateways == {"url", "log_level", "log_format"}
    assert gateways <= {str(option.name) for option in up.params}


def test_a_bridge_states_its_deadlines_when_it_opens_the_session() -> None:
    body = opening(BridgeOptions(unattended="8h"), agent="a", cwd="/srv/shop")
    assert body["timeouts"] == {"unattended": "8h"}
    assert "timeouts" not in opening(BridgeOptions(), agent="a", cwd="/srv/shop")


def test_an_installed_hook_states_them_too(tmp_path: Path) -> None:
    options = BridgeOptions(attended="2m", unattended="none")
    words = hook_words(options)
    at = words.index("--attended")
    assert words[at : at + 4] == ["--attended", "2m", "--unattended", "none"]
    assert "--attended 2m --unattended none" in json.dumps(CODEX.entries(options, 60, "user"))
    settings = HookSettings.read(words, "claude")
    stated = settings.opening({"cwd": str(tmp_path)})["timeouts"]
    assert json.dumps(stated) == '{"attended": "2m", "unattended": "none"}'


def test_up_refuses_rules_that_cannot_be_read_before_it_starts_anything(ledger: CommandLine, tmp_path: Path) -> None:
    ran = ledger("up", "--rules", tmp_path / "nosuch.json", code=12)
    assert "cannot be read: no such file" in ran.err
    assert ran.out == ""
    ran = ledger("up", "--listen", "none", "--unattended", "8h", code=12)
    assert "remove `--listen none`" in ran.err
