"""A client that disconnects and reconnects, in a process that may be killed in between."""

from __future__ import annotations

from tests.journeys.processes import Stage

SES = "ses_1"


def test_what_waits_is_replayed_in_order_of_asking_to_every_process_that_connects(stage: Stage) -> None:
    agent, phone, phone_again = stage.players("agent", "ann", "ann")
    agent.do("open", on=SES)
    for number in (3, 1, 2):
        agent.do("submit", "bash", ["git push"], on=SES, request_id=f"r{number}")
    replayed = phone.do("connect", "phone", "ann", on=SES)
    assert [(one["request_id"], one["is_replay"]) for one in replayed] == [("r3", True), ("r1", True), ("r2", True)]
    phone.do("reply_as", "phone", "r1", "once", on=SES)
    agent.do("submit", "bash", ["git push"], on=SES, request_id="r4")
    phone.kill9()
    replayed = phone_again.do("connect", "phone", "ann", on=SES)
    assert [(one["request_id"], one["is_replay"]) for one in replayed] == [("r3", True), ("r2", True), ("r4", True)]
    assert [one["tier"] for one in replayed] == ["unattended", "unattended", "attended"]


def test_the_input_lock_passes_to_who_is_still_there_when_its_holder_leaves(stage: Stage) -> None:
    agent, ann, bob = stage.players("agent", "ann", "bob")
    agent.do("open", on=SES, answering="lock-holder")
    agent.do("submit", "bash", ["git push"], on=SES, request_id="r1")
    ann.do("connect", "phone", "ann", on=SES)
    bob.do("connect", "laptop", "bob", on=SES)
    assert bob.refused("reply_as", "laptop", "r1", "once", on=SES)["code"] == "NO_INPUT_LOCK"
    ann.do("disconnect", "phone", on=SES)
    assert bob.do("reply_as", "laptop", "r1", "once", on=SES)["by"] == "bob"
