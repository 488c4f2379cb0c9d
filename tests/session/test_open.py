from __future__ import annotations

from ledger.core.errors import InputError
from ledger.core.events import PolicyChanged, PolicyDetail, SessionOpened, Settings
from ledger.policy import digest
from ledger.session.commands import Open
from tests.support.commands import AGENT, closes, opens, source
from tests.support.scenario import T0, given, later

ALLOW_LS = {"bash": {"ls *": "allow"}}
QUICK = Settings(attended_ms=5_000)


def test_opening_a_session_records_its_rules_with_their_digest_and_its_settings() -> None:
    policy = source(ALLOW_LS)
    opening = Open(
        actor=AGENT,
        project="shop",
        agent="build",
        parent="ses_0",
        cwd="/home/user/project",
        policy=policy,
        policy_digest=digest(policy),
        policy_source="opencode.json",
        settings=QUICK,
    )
    opened = SessionOpened(
        project="shop",
        agent="build",
        parent="ses_0",
        dialect="opencode",
        policy_digest=digest(policy),
        policy_source="opencode.json",
        settings=QUICK,
        detail=PolicyDetail(cwd="/home/user/project"),
    )
    state = given().when(opening).then(opened).state
    assert (state.opened_ms, state.project, state.agent, state.parent) == (T0, "shop", "build", "ses_0")
    assert (state.cwd, state.settings) == ("/home/user/project", QUICK)


def test_a_session_that_is_given_no_rules_has_none_and_the_default_times() -> None:
    state = given().when(Open(actor=AGENT)).then(SessionOpened(policy_digest="")).state
    assert state.settings == Settings(attended_ms=60_000, unattended_ms=604_800_000, cap_ms=2_592_000_000)


def test_opening_again_with_the_same_rules_changes_nothing() -> None:
    given(opens(ALLOW_LS, project="shop"), later("1d")).when(opens(ALLOW_LS, project="shop")).then_nothing_happens()


def test_opening_without_rules_or_settings_attaches_and_keeps_what_the_session_has() -> None:
    given(opens(ALLOW_LS, settings=QUICK)).when(Open(actor=AGENT)).then_nothing_happens()


def test_opening_with_other_rules_changes_the_policy_from_here_on() -> None:
    policy = source({"bash": "deny"})
    state = (
        given(opens(ALLOW_LS, settings=QUICK))
        .when(opens({"bash": "deny"}))
        .then(PolicyChanged(policy_digest=digest(policy), settings=QUICK))
        .state
    )
    assert (state.policy_digest, state.opened_ms) == (digest(policy), T0)


def test_opening_with_other_settings_alone_keeps_the_rules() -> None:
    policy = source(ALLOW_LS)
    given(opens(ALLOW_LS)).when(Open(actor=AGENT, settings=QUICK)).then(
        PolicyChanged(policy_digest=digest(policy), settings=QUICK)
    )


def test_a_session_never_moves_to_another_project() -> None:
    given(opens(project="shop")).when(opens(project="bank")).then_refused(
        InputError, "INPUT", contains="session `ses_1` has project `shop`, not `bank`", session="ses_1"
    )


def test_a_session_without_a_project_is_its_own_and_stays_so() -> None:
    scenario = given(opens()).when(opens(project="shop")).then_refused(InputError, "INPUT", contains="project `none`")
    assert scenario.state.project is None


def test_attaching_to_a_closed_session_shows_it_and_changes_nothing() -> None:
    given(opens(), closes()).when(opens({"bash": "allow"}, settings=QUICK)).then_nothing_happens()
