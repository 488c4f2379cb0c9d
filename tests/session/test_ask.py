from __future__ import annotations

from ledger.core.errors import SessionClosedError, UnknownSessionError
from ledger.core.events import Asked, AskedDetail, Presence, Settings, ToolRef
from ledger.core.policy import Offer
from ledger.policy import Evaluation, Part, RuleRef, Verdict, digest
from tests.support.commands import ANN, asks, closes, connects, grants, opens, source
from tests.support.salts import SALT, recorded_digest
from tests.support.scenario import T0, Happened, Scenario, given, later, ms

RULES = {"bash": {"git *": "allow", "rm *": "deny"}}
GIT_RULE = RuleRef("bash git * allow", "project", "opencode.json")
RM_RULE = RuleRef("bash rm * deny", "project", "opencode.json")
POLICY_DIGEST = digest(source(RULES))


def events_of(happened: Happened) -> list[Asked]:
    return [event for event in happened.events if isinstance(event, Asked)]


def test_what_a_rule_allows_is_allowed_at_once_and_recorded_with_the_rule() -> None:
    ask = asks("per_1", "git status")
    evaluation = Evaluation(Verdict.ALLOW, (Part("git status", Verdict.ALLOW, (GIT_RULE,)),), (GIT_RULE,), None, None)
    scenario = (
        given(opens(RULES))
        .when(ask)
        .then(
            Asked(
                request_id="per_1",
                permission="bash",
                verdict=Verdict.ALLOW,
                digest=recorded_digest(ask),
                policy_digest=POLICY_DIGEST,
                detail=AskedDetail(salt=SALT, patterns=("git status",), evaluation=evaluation),
            )
        )
    )
    result = scenario.result("per_1")
    assert (result.outcome, result.reply, result.by.name, result.at_ms) == ("allowed", None, "claude", T0)


def test_what_a_rule_denies_is_denied_at_once_and_the_agent_goes_on() -> None:
    scenario = given(opens(RULES))
    ask = asks("per_1", "rm -rf /")
    (asked,) = events_of(scenario.when(ask))
    assert asked.verdict is Verdict.DENY
    result = scenario.result("per_1")
    assert (result.outcome, result.agent, result.code) == ("denied", "continue", "DENIED")
    assert result.message == (
        "The user has specified a rule which prevents you from using this specific tool call. Here are some of the "
        'relevant rules [{"permission":"bash","pattern":"git *","action":"allow"},'
        '{"permission":"bash","pattern":"rm *","action":"deny"}]'
    )


def test_a_denied_agent_stops_where_the_session_says_so() -> None:
    scenario = given(opens(RULES, settings=Settings(on_denied="stop")), asks("per_1", "rm x"))
    assert scenario.result("per_1").agent == "stop"


def test_what_no_rule_decides_waits_for_a_person_with_all_it_was_asked_with() -> None:
    ask = asks(
        "per_1",
        "npm test",
        always=("npm test", "npm *"),
        metadata={"cwd": "/src"},
        message_id="msg_1",
        tool_name="bash",
        tool_input={"command": "npm test"},
        parent="ses_0",
    )
    evaluation = Evaluation(
        Verdict.ASK,
        (Part("npm test", Verdict.ASK),),
        reason="no rule matches, and the default is ask",
        always=("npm test *",),
        effect="changes_here",
    )
    scenario = (
        given(opens(RULES, agent="build"), later("5s"))
        .when(ask)
        .then(
            Asked(
                request_id="per_1",
                permission="bash",
                verdict=Verdict.ASK,
                digest=recorded_digest(ask),
                policy_digest=POLICY_DIGEST,
                tier="unattended",
                duration_ms=ms("7d"),
                unattended_ms=ms("7d"),
                cap_ms=ms("30d"),
                tool=ToolRef("msg_1", "call_per_1"),
                tool_name="bash",
                agent="build",
                parent="ses_0",
                detail=AskedDetail(
                    salt=SALT,
                    patterns=("npm test",),
                    always=("npm test", "npm *"),
                    metadata={"cwd": "/src"},
                    input={"command": "npm test"},
                    evaluation=evaluation,
                    offers=(
                        Offer(("npm test",), "exact"),
                        Offer(("npm test *",), "kind"),
                        Offer(("npm test", "npm *"), "all", wide=True),
                    ),
                ),
            )
        )
    )
    request = scenario.state.pending["per_1"]
    assert (request.asked_ms, request.asker, request.version) == (T0 + ms("5s"), ask.actor, 2)
    assert (request.metadata, request.input) == ({"cwd": "/src"}, {"command": "npm test"})
    assert (request.agent, request.parent, request.tool_name) == ("build", "ses_0", "bash")
    assert request.evaluation == evaluation


def test_a_request_says_who_was_there_to_answer_it() -> None:
    scenario = given(opens(), connects("phone", "ann"), connects("desk", "bob"))
    (asked,) = events_of(scenario.when(asks("per_1", "ls")))
    assert (asked.tier, asked.duration_ms) == ("attended", ms("60s"))
    assert asked.present == (Presence("desk", "bob"), Presence("phone", "ann"))


def test_the_strictest_of_several_patterns_decides_also_a_later_one() -> None:
    # opencode-zh.md 5.1 stops at the first pattern that asks; here a deny behind it is seen.
    scenario = given(opens(RULES), asks("per_1", "npm test", "rm x"), asks("per_2", "git a", "npm test"))
    assert scenario.result("per_1").outcome == "denied"
    assert scenario.waiting() == ["per_2"]


def test_an_ask_without_patterns_has_nothing_to_judge_and_is_allowed() -> None:
    assert given(opens(RULES), asks("per_1")).result("per_1").outcome == "allowed"


def test_a_session_grant_in_force_lifts_an_ask_and_is_named() -> None:
    scenario = given(opens(RULES), grants("grn_1", "bash", "npm *"))
    (asked,) = events_of(scenario.when(asks("per_1", "npm test")))
    assert (asked.verdict, asked.grants, asked.rests_on_project) == (Verdict.ALLOW, ("grn_1",), False)


def test_a_grant_that_was_not_needed_is_not_named() -> None:
    scenario = given(opens(RULES), grants("grn_1", "bash", "*"))
    (asked,) = events_of(scenario.when(asks("per_1", "git status")))
    assert asked.grants == ()


def test_a_grant_never_lifts_a_configured_deny() -> None:
    scenario = given(opens(RULES), grants("grn_1", "bash", "*"), asks("per_1", "rm x"))
    assert scenario.result("per_1").outcome == "denied"


def test_a_grant_lifts_a_configured_deny_with_compat_v1() -> None:
    scenario = given(opens(RULES, compat="v1"), grants("grn_1", "bash", "*"), asks("per_1", "rm x"))
    assert scenario.result("per_1").outcome == "allowed"


def test_a_request_keeps_the_evaluation_it_has_when_the_rules_change() -> None:
    scenario = given(opens(), asks("per_1", "npm test"), opens({"bash": "deny"}), asks("per_2", "npm test"))
    assert scenario.waiting() == ["per_1"]
    assert scenario.result("per_2").outcome == "denied"


def test_an_ask_in_a_session_that_was_never_opened_is_refused() -> None:
    Scenario().when(asks("per_1", "ls")).then_refused(
        UnknownSessionError, "UNKNOWN_SESSION", contains="there is no session `ses_1`"
    )


def test_an_ask_in_a_closed_session_is_refused() -> None:
    given(opens(), closes()).when(asks("per_1", "ls")).then_refused(
        SessionClosedError, "SESSION_CLOSED", contains="session `ses_1` is closed", session="ses_1", request_id="per_1"
    )


def test_who_asked_is_the_author_of_the_event() -> None:
    assert given(opens(), asks("per_1", "ls", by=ANN)).records[-1].actor == ANN
