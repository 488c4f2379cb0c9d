"""Addresses in every spelling: a deny for a host holds for all of them, and an allow for none that leads elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from ledger.policy import Call, Layer, PolicySource, Rule, Verdict, compile_policy
from ledger.policy.urls import ascii_host, read_address
from tests.support.rows import every

TOOL_RULES: Final = ("betcode", "claude")
WILDCARDS: Final = ("brutus", "opencode")
TO_EVIL: Final = (
    "https:evil.com",
    "https:/evil.com",
    "https:///evil.com",
    "https:\\\\evil.com",
    "https:\\evil.com\\x",
    "https://evil.com\\x",
    "https://evil.com\\@good.com",
    "https://evil.com\\\\@good.com",
    "https://good.com@evil.com",
    "https://good.com:pass@evil.com/x",
    "https://%65vil.com",
    "https://e%76il.com",
    "https://evil\u3002com",
    "https://\uff45\uff56il.com",
    "https://e\u00advil.com",
    "https://evil.com.",
    "https://EVIL.com/",
    "HTTPS://evil.com:443",
    "https://evil.com:8443/x",
    "http://evil.com",
    " \thttps://ev\til.com\n",
    "https://evil.com?x",
    "https://evil.com#@good.com",
)
UNREADABLE: Final = (
    "evil.com",
    "//evil.com",
    "https://evil.com:99999",
    "https://[evil.com",
    "https://ev il.com",
    "\ud800",
)


def fetching(actions: Mapping[str, str]) -> tuple[Rule, ...]:
    return tuple(Rule("webfetch", pattern, Verdict(action)) for pattern, action in actions.items())


def judge(dialect: str, config: Mapping[str, Any], url: str) -> Verdict:
    tool = "WebFetch" if dialect in TOOL_RULES else "webfetch"
    options = {"cwd": "/home/ann/shop", "home": "/home/ann"}
    layer = Layer("r", config=dict(config)) if dialect in TOOL_RULES else Layer("r", rules=fetching(config))
    policy = compile_policy(PolicySource(dialect, (layer,), options))
    return policy.evaluate(Call(tool, (), tool, {"url": url, "prompt": "x"})).verdict


@every("url", TO_EVIL)
def test_a_denied_host_is_denied_in_every_spelling(url: str) -> None:
    tools = {"permissions": {"allow": ["WebFetch"], "deny": ["WebFetch(domain:evil.com)"]}}
    texts = {"*": "allow", "https://evil.com*": "deny"}
    assert [judge(dialect, tools, url) for dialect in TOOL_RULES] == [Verdict.DENY] * 2
    assert [judge(dialect, texts, url) for dialect in WILDCARDS] == [Verdict.DENY] * 2


@pytest.mark.parametrize("url", [url for url in TO_EVIL if "good.com" in url])
def test_an_allowed_host_that_is_only_written_in_front_is_not_allowed(url: str) -> None:
    tools = {"permissions": {"allow": ["WebFetch(domain:good.com)"]}}
    texts = {"*": "ask", "https://good.com*": "allow"}
    assert [judge(dialect, tools, url) for dialect in TOOL_RULES] == [Verdict.ASK] * 2
    assert [judge(dialect, texts, url) for dialect in WILDCARDS] == [Verdict.ASK] * 2


@pytest.mark.parametrize("url", UNREADABLE)
def test_an_address_that_cannot_be_read_is_never_allowed_beside_a_deny(url: str) -> None:
    tools = {"permissions": {"allow": ["WebFetch"], "deny": ["WebFetch(domain:evil.com)"]}}
    texts = {"*": "allow", "https://evil.com*": "deny"}
    for dialect in TOOL_RULES:
        assert judge(dialect, tools, url) is not Verdict.ALLOW
    for dialect in WILDCARDS:
        assert judge(dialect, texts, url) is not Verdict.ALLOW


@pytest.mark.parametrize(
    "url", ["https://good.com", "https://good.com/a?b=c#d", "HTTPS://GOOD.COM/", "https://good.com:8443/"]
)
def test_an_address_that_everybody_reads_alike_is_allowed(url: str) -> None:
    tools = {"permissions": {"allow": ["WebFetch(domain:good.com)"], "deny": ["WebFetch(domain:evil.com)"]}}
    texts = {"*": "allow", "https://evil.com*": "deny"}
    assert [judge(dialect, tools, url) for dialect in TOOL_RULES] == [Verdict.ALLOW] * 2
    assert [judge(dialect, texts, url) for dialect in WILDCARDS] == [Verdict.ALLOW] * 2


def test_documentation_that_is_only_written_in_front_is_asked_about() -> None:
    assert judge("claude", {"permissions": {}}, "https://docs.python.org/3/") is Verdict.ALLOW
    for url in ("https://evil.com\\@docs.python.org", "https://docs.python.org@evil.com"):
        assert judge("claude", {"permissions": {}}, url) is Verdict.ASK


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f.1", "017700000001", "2130706433", "127.1", "[::ffff:127.0.0.1]"])
def test_an_address_of_a_machine_is_denied_in_every_notation(host: str) -> None:
    rules = {"permissions": {"allow": ["WebFetch"], "deny": ["WebFetch(domain:127.0.0.1)"]}}
    assert judge("claude", rules, f"http://{host}/") is Verdict.DENY


@pytest.mark.parametrize(
    ("written", "read"),
    [("Evil.COM.", "evil.com"), ("bücher.example", "xn--bcher-kva.example"), ("*.Bücher.example", "*.xn--bcher-kva.example"),
     ("evil\u3002com", "evil.com"), ("*", "*")],
)  # fmt: skip
def test_the_host_of_a_rule_is_read_as_that_of_an_address(written: str, read: str) -> None:
    assert ascii_host(written) == read


def test_a_reading_says_where_an_address_leads_and_how_else_it_is_written() -> None:
    address = read_address("https://u@Evil.com.:443/%61?b")
    assert (address.hosts, address.is_clear) == (frozenset({"evil.com"}), False)
    assert address.texts[:3] == ("https://evil.com./%61?b", "https://u@evil.com./%61?b", "https://evil.com/%61?b")
    assert "http://evil.com/a?b" in address.texts
