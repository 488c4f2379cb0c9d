"""`reply`: a person's answer from a terminal."""

from __future__ import annotations

import logging

import click

from ledger import AlreadyAnsweredError, Ledger, ReplyError, StaleReplyError
from workers.cli.base import command, local_actor, tell_logs, with_ledger
from workers.cli.exits import Exit
from workers.cli.inputs import json_object
from workers.cli.output import Output
from workers.cli.wording import result_lines


@command(
    examples=(
        "permission-ledger reply per_1 once",
        "permission-ledger reply per_1 always --session ses_1 --as ann",
        "permission-ledger reply per_1 reject --message 'use the staging branch'",
    )
)
@click.argument("request")
@click.argument("reply")
@click.option("--session", metavar="SESSION", help="The request's session, should several know its id.")
@click.option("--message", metavar="TEXT", help="Feedback that the agent is told with a reject.")
@click.option("--digest", metavar="DIGEST", help="Count only if the request is the one with this digest.")
@click.option("--as", "name", metavar="NAME", help="Who answers (default: user@host).")
@with_ledger
async def reply(
    ledger: Ledger,
    output: Output,
    *,
    request: str,
    reply: str,
    session: str | None,
    message: str | None,
    digest: str | None,
    name: str | None,
) -> int:
    """Answer a request: REPLY is once, session, always or reject.

    Also ALLOW_ONCE, ALLOW_SESSION and DENY, or {"ok", "remember", "reason"} as JSON. The first valid reply wins; the same one again succeeds and changes
    nothing, another gets exit code 10 and is told who won. A reply from here counts as an administrator's: it needs no
    input lock, and the log marks that.
    """
    # A repeated answer succeeds in silence otherwise.
    tell_logs(logging.INFO, as_json=output.as_json)
    actor = local_actor(name)
    answer = (json_object(reply, "REPLY") if reply.lstrip().startswith("{") else None) or reply
    found = await ledger.session_of(request, session)
    try:
        result = await found.reply(request, answer, actor=actor, message=message, digest=digest, administrator=True)
    except (AlreadyAnsweredError, StaleReplyError) as error:
        if output.as_json:
            output.row(await _what_stands(ledger, found.id, request, error))
        raise
    if output.as_json:
        output.row(result.as_json())
    else:
        for line in result_lines(result):
            output.line(line)
    return Exit.DONE


async def _what_stands(ledger: Ledger, session: str, request: str, error: ReplyError) -> dict[str, object]:
    """The outcome that was first, with why this reply did not count."""
    stands = await (await ledger.attach(session)).result(request)
    return {**stands.as_json(), "code": error.code, "message": error.text}
