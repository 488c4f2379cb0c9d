"""`reply`: a person's answer from a terminal, to one request or to several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ledger import AlreadyAnsweredError, LedgerError, StaleReplyError, StoreError
from ledger.client.results import result_of
from ledger.core.events import Actor
from ledger.core.requests import Answer, parse_answer, parse_reply
from ledger.core.times import parse_duration
from ledger.session.approvals import offered
from ledger.session.texts import undelivered_note
from workers.cli import choices
from workers.cli.base import checked, command, json_object, local_actor, tell, with_ledger
from workers.cli.choices import Choice, ChosenRequest, is_confirmed, named, the_only_one
from workers.cli.completion import IdParam
from workers.cli.description import print_result
from workers.cli.output import CommandOutput, Exit, talk, worst

if TYPE_CHECKING:
    from ledger import Ledger, Result
    from ledger.session.state import Request

REQUEST_OR_REPLY: Final = IdParam("requests", ("once", "session", "always", "reject"))
_WORDS: Final = frozenset({"once", "session", "always", "reject", "ALLOW_ONCE", "ALLOW_SESSION", "DENY"})


class _Answer(NamedTuple):
    """The answer as typed, the same for every request."""

    reply: Answer
    actor: Actor
    session: str | None
    message: str | None
    digest: str | None
    round: int | None
    bounds: dict[str, Any]


def _check(
    *,
    words: Sequence[str],
    matching: str | None,
    message: str | None,
    digest: str | None,
    round_: int | None,
    name: str | None,
    patterns: Sequence[str],
    **_: Any,
) -> None:
    """Check everything that can be checked without a ledger: nothing is answered if a part is invalid."""
    if len(words) == 1 and words[0] not in _WORDS and not words[0].startswith("{"):
        raise click.UsageError(f"give REQUEST and then the reply: `permission-ledger reply {words[0]} once`")
    if len(words) > 1 and matching is not None:
        raise click.UsageError("give requests or --matching, not both")
    if matching is not None and (digest is not None or round_ is not None or patterns):
        raise click.UsageError("--digest, --round and --pattern are for one request that is named; not with --matching")
    if words[0] in _WORDS and words[-1] not in _WORDS:
        raise click.UsageError(f"the reply comes last: `permission-ledger reply {words[-1]} {words[0]}`")
    given = {"--digest": digest is not None, "--round": round_ is not None, "--pattern": bool(patterns)}
    for option in (name for name, is_given in given.items() if is_given and len(words) > 2):
        raise click.UsageError(f"{option} is for one request; answer the others without it, or one by one")
    parse_answer(_reply(words[-1]), message)
    local_actor(name)


@command(
    "permission-ledger reply per_1 once",
    "permission-ledger reply per_1 per_2 per_3 once",
    "permission-ledger reply once",
    "permission-ledger reply --matching 'git push' once",
    "permission-ledger reply per_1 always --session ses_1 --as ann",
    "permission-ledger reply per_1 session --expires 1h --uses 5",
    "permission-ledger reply per_1 always --pattern 'git push origin *'",
    "permission-ledger reply per_1 reject --message 'use the staging branch'",
)
@click.argument("words", nargs=-1, required=True, type=REQUEST_OR_REPLY, metavar="[REQUEST...] REPLY")
@click.option("--matching", metavar="WORDS", help="Answer what is pending and contains all of these words.")
@click.option("--yes", is_flag=True, help="Do not ask before requests are answered that no whole id names.")
@click.option("--session", metavar="SESSION", help="The request's session, if several have its id.")
@click.option("--message", metavar="TEXT", help="Feedback for the agent with a reject.")
@click.option("--expires", metavar="DURATION", help="With session and always: how long it is remembered.")
@click.option("--uses", type=int, metavar="COUNT", help="With session and always: for how many more calls.")
@click.option(
    "--pattern", "patterns", multiple=True, metavar="PATTERN", help="Remember this instead of what is offered."
)
@click.option("--digest", metavar="DIGEST", help="Count only if the request is the one with this digest.")
@click.option(
    "--round",
    "round_",
    type=click.IntRange(1),
    metavar="N",
    help="Count only in this round of the request; one that was reopened needs it, or --digest.",
)
@click.option("--as", "name", metavar="NAME", help="Act as NAME (default: user@host).")
@checked(_check)
@with_ledger
async def reply(
    ledger: Ledger,
    output: CommandOutput,
    *,
    words: Sequence[str],
    matching: str | None,
    yes: bool,
    session: str | None,
    message: str | None,
    digest: str | None,
    round_: int | None,
    name: str | None,
    expires: str | None,
    uses: int | None,
    patterns: Sequence[str],
) -> int:
    """Answer requests: REPLY is once, session, always or reject.

    Also ALLOW_ONCE, ALLOW_SESSION and DENY, or {"ok", "remember", "reason"} as JSON. The first valid reply wins; the
    same one again succeeds and changes nothing, another gets exit code 10 and the name of the winner. A yes to what the
    rules deny by now ends the request as denied (3); what it grants stands. A yes is recorded, with exit code 7, until as
    many people have approved as must. A reply from here counts as an administrator's: it needs no input lock, and may
    grant a wider pattern than offered. The log marks both.

    REQUEST is a whole id, or the beginning of one (4 characters or more) that no other request, ended ones too, begins
    with. A beginning, --matching, and no REQUEST where just one waits choose among what is pending: those requests are
    shown whole, and answered as shown once you confirm, or with --yes. Without a terminal and --yes they are listed,
    with exit code 7.
    """
    *typed, said = words
    bounds: dict[str, Any] = {
        "expires_in_ms": None if expires is None else parse_duration(expires, "--expires"),
        "uses": uses,
        "patterns": patterns or None,
    }
    answer = _Answer(_reply(said), local_actor(name), session, message, digest, round_, bounds)
    targets, shown = await _chosen(ledger, typed, matching, session)
    if shown and not is_confirmed(output, shown, said, yes=yes):
        return Exit.PENDING
    requests = [one.request_id for one in targets]
    codes: list[Exit] = []
    for target in targets:
        try:
            codes.append(await _answered(ledger, output, target, answer, requests))
        except StoreError as error:
            # The next requests are as doubtful; each would be waited for.
            left = requests[len(codes) + 1 :]
            raise _with_rest(error, left) from error
        except LedgerError as error:
            codes.append(tell(error, as_json=output.as_json))
    return worst(codes)


async def _chosen(ledger: Ledger, typed: Sequence[str], words: str | None, session: str | None) -> Choice:
    if words is not None:
        return await choices.matching(ledger, words, session)
    if not typed:
        return await the_only_one(ledger, session)
    try:
        return await named(ledger, typed, session)
    except StoreError as error:
        raise _with_rest(error, typed[1:]) from error


async def _answered(
    ledger: Ledger, output: CommandOutput, target: ChosenRequest, answer: _Answer, requests: Sequence[str]
) -> Exit:
    """Answer one of the requests and print its result. Raises the errors of `Session.reply`."""
    request = target.request_id
    found = target.session or await ledger.session_of(request, answer.session)
    state = await found.state()
    was_settled, waiting = request in state.settled, state.pending.get(request)
    try:
        result = await found.reply(
            request,
            answer.reply,
            actor=answer.actor,
            message=answer.message,
            digest=answer.digest or target.digest,
            round=answer.round,
            administrator=True,
            **_bounds(answer, waiting),
        )
    except (AlreadyAnsweredError, StaleReplyError) as error:
        stands = result_of(await found.state(), request)
        if _followed_from(stands, requests):
            print_result(output, stands)
            return Exit.DENIED if stands.outcome == "denied" else Exit.DONE
        if output.as_json:
            output.row({**stands.as_json(), "code": error.code, "message": error.text})
        raise
    if was_settled:
        # A repeated answer otherwise succeeds silently.
        text = f"request `{request}` was already answered the same way"
        output.aside({"info": text}, f"info: {text}")
    print_result(output, result)
    note = undelivered_note(None if waiting is None else waiting.metadata, answer.message)
    if note is not None:
        talk(f"info: {note}")
    if result.outcome is None:
        return Exit.PENDING
    # A yes overruled by the present rules is no success, and must not look like one.
    return Exit.DENIED if result.outcome == "denied" else Exit.DONE


def _bounds(answer: _Answer, waiting: Request | None) -> dict[str, Any]:
    """Return what the answer remembers: what the card offers where the agent's own suggestion would change nothing."""
    if waiting is None or answer.reply not in ("session", "always") or answer.bounds["patterns"]:
        return answer.bounds
    found = offered(waiting)
    if found is None:
        return answer.bounds
    return answer.bounds | {"patterns": None if set(found.entries) == set(waiting.always) else found.entries}


def _followed_from(stands: Result, requests: Sequence[str]) -> bool:
    """Return whether the reply to another of the requests ended this one too: a reject rejects its session's others."""
    cause = stands.settled.cause if stands.settled else None
    return cause is not None and cause.request_id in requests


def _reply(typed: str) -> Answer:
    return (json_object(typed, "REPLY") if typed.lstrip().startswith("{") else None) or parse_reply(typed)


def _with_rest(error: StoreError, left: Sequence[str]) -> StoreError:
    if not left:
        return error
    rest = ", ".join(f"`{request}`" for request in left)
    return type(error)(f"{error.text}; not tried: {rest}", **{**error.data, "not_tried": list(left)})
