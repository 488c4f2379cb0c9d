"""The scenarios of betcode.md on the decider. How BetCode's own rules match is the dialect's matter: here its verdicts
come from rules of the common form. Frames, pushes and metrics belong to the faces that send and count them.
"""

from __future__ import annotations

import pytest

from ledger.core.errors import AlreadyAnsweredError, InputError, StaleReplyError
from ledger.core.events import Asked, Expired, Presence, Replied, Settings
from ledger.core.requests import parse_reply
from ledger.policy import Verdict
from tests.support.commands import ANN, BOB, Rules, asks, connects, disconnects, grants, opens, replies
from tests.support.scenario import T0, Scenario, Settle, given, later, ms

SETTINGS = Settings(cascade_reject="none", answering="lock-holder")


def daemon(rules: Rules | None = None) -> Scenario:
    return given(opens(rules, dialect="betcode", settings=SETTINGS))


def with_client(rules: Rules | None = None) -> Scenario:
    """The background of every scenario: a client is connected with the input lock."""
    return daemon(rules).given(connects("c1"))


class TestRuleMatching:
    # title, rules, permission, pattern, verdict
    VERDICTS = (
        ("exact tool name", {"Read": "allow"}, "Read", "/src/main.rs", Verdict.ALLOW),
        ("glob for Bash", {"Bash": {"git *": "allow"}}, "Bash", "git status", Verdict.ALLOW),
        ("glob for paths", {"Edit": {"src/*.ts": "allow"}}, "Edit", "src/components/Button.ts", Verdict.ALLOW),
        ("other extension", {"Edit": {"src/*.ts": "allow"}}, "Edit", "src/components/Button.tsx", Verdict.ASK),
        (
            "deny over allow",
            {"Bash": {"git *": "allow", "git push --force *": "deny"}},
            "Bash",
            "git push --force origin main",
            Verdict.DENY,
        ),
        ("specific over general", {"Bash": {"*": "deny", "npm test": "allow"}}, "Bash", "npm test", Verdict.ALLOW),
        ("MCP server", {"mcp__github__*": "allow"}, "mcp__github__create_issue", "*", Verdict.ALLOW),
        ("another MCP server", {"mcp__github__*": "allow"}, "mcp__gitlab__create_issue", "*", Verdict.ASK),
        ("no rule matches", {"Read": "allow"}, "Write", "a.txt", Verdict.ASK),
    )

    @pytest.mark.parametrize(("title", "rules", "permission", "pattern", "verdict"), VERDICTS)
    def test_a_verdict_is_in_the_log_and_only_an_ask_reaches_the_client(
        self, title: str, rules: Rules, permission: str, pattern: str, verdict: Verdict
    ) -> None:
        scenario = with_client(rules)
        (asked,) = scenario.when(asks("req_001", pattern, permission=permission)).events
        assert isinstance(asked, Asked)
        assert asked.verdict is verdict, title
        assert scenario.waiting() == (["req_001"] if verdict is Verdict.ASK else [])

    def test_a_session_grant_overrides_the_default_of_no_rule(self) -> None:
        scenario = with_client().given(grants("grn_1", "Edit", "*"), asks("req_009", "a.ts", permission="Edit"))
        assert scenario.result("req_009").outcome == "allowed"


class TestTimeouts:
    def test_with_a_connected_client_it_times_out_after_sixty_seconds(self) -> None:
        scenario = with_client().given(asks("req_020", "ls"))
        scenario.when(Settle(), now=T0 + ms("60s")).then(
            Expired(request_id="req_020", tier="attended", duration_ms=60_000, present=(Presence("c1", "ann"),))
        )
        assert scenario.result("req_020").message == "Permission request timed out after 60 seconds."

    def test_with_no_client_it_persists_for_seven_days(self) -> None:
        scenario = daemon().given(asks("req_021", "ls"))
        scenario.when(Settle(), now=T0 + ms("60s")).then_nothing_happens()
        assert (scenario.waiting(), scenario.deadline_of("req_021")) == (["req_021"], ms("7d"))

    def test_with_no_client_it_times_out_after_seven_days(self) -> None:
        scenario = daemon().given(asks("req_022", "ls"), later("7d"), Settle())
        assert scenario.result("req_022").message == "Permission request expired after 7 days."
        assert scenario.waiting() == []

    def test_a_client_that_connects_extends_it_to_seven_days_from_then(self) -> None:
        scenario = daemon().given(asks("req_023", "ls"), later("6d"), connects("c1"))
        assert (scenario.deadline_of("req_023"), scenario.waiting()) == (ms("13d"), ["req_023"])

    def test_a_client_that_responds_in_time_prevents_it(self) -> None:
        scenario = with_client().given(asks("req_022", "ls"), later("30s"))
        scenario.given(replies("req_022", parse_reply("ALLOW_ONCE"), client="c1"), later("8d"), Settle())
        assert scenario.result("req_022").outcome == "allowed"
        assert not any(isinstance(one.event, Expired) for one in scenario.records)

    def test_allow_session_makes_a_grant_of_the_session(self) -> None:
        scenario = with_client().given(asks("req_024", "a.ts", permission="Edit", always=("*",)))
        scenario.given(replies("req_024", parse_reply("ALLOW_SESSION"), client="c1"))
        (grant,) = scenario.state.grants.values()
        assert (grant.scope, grant.permission, grant.pattern) == ("session", "Edit", "*")
        assert scenario.result("req_024").outcome == "allowed"

    def test_reconnecting_does_not_reset_it(self) -> None:
        scenario = with_client().given(
            asks("req_025", "ls"), later("30s"), disconnects("c1"), later("15s"), connects("c1"), later("15s"), Settle()
        )
        assert scenario.result("req_025").message == "Permission request timed out after 60 seconds."


class TestReconnection:
    def test_what_is_pending_is_there_for_the_client_that_comes_back(self) -> None:
        scenario = with_client().given(asks("req_030", "ls"), disconnects("c1"), connects("c1"))
        assert scenario.waiting() == ["req_030"]

    def test_the_same_response_after_a_reconnection_is_idempotent(self) -> None:
        scenario = with_client().given(asks("req_031", "ls"), replies("req_031", "once", client="c1"))
        scenario.given(disconnects("c1"), connects("c1"))
        scenario.when(replies("req_031", "once", client="c1")).then_nothing_happens()

    def test_a_response_to_an_expired_request_is_an_error(self) -> None:
        with_client().given(asks("req_032", "ls"), later("70s")).when(
            replies("req_032", "once", client="c1")
        ).then_refused(StaleReplyError, "PERMISSION_STALE", contains="Permission request expired")

    def test_several_are_replayed_in_the_order_in_which_they_came(self) -> None:
        scenario = daemon().given(
            asks("req_035", "a"), later("5s"), asks("req_034", "b"), later("5s"), asks("req_033", "c"), connects("c1")
        )
        assert scenario.waiting() == ["req_035", "req_034", "req_033"]


class TestWhatBetcodeLeavesUndefined:
    def test_a_malformed_request_never_reaches_the_log(self) -> None:
        with pytest.raises(InputError, match="the permission has 0 characters"):
            asks("req_040", "ls", permission="")

    def test_an_invalid_decision_is_refused_and_the_request_waits_on(self) -> None:
        scenario = with_client().given(asks("req_041", "ls"))
        with pytest.raises(InputError, match="`MAYBE` is not a reply"):
            parse_reply("MAYBE")
        assert scenario.waiting() == ["req_041"]

    def test_of_two_responses_the_first_wins_and_the_second_is_told(self) -> None:
        scenario = given(opens(dialect="betcode"), connects("c1"), connects("c2"), asks("req_042", "ls"))
        scenario.when(replies("req_042", "once", by=ANN, client="c1")).then(
            Replied(request_id="req_042", reply="once", outcome="allowed", client_id="c1")
        )
        scenario.when(replies("req_042", "reject", by=BOB, client="c2")).then_refused(
            AlreadyAnsweredError, "ALREADY_ANSWERED", contains="already allowed by ann (once)"
        )
