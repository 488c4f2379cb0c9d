"""The page behind an answer link. Reading it never answers: mail programs and chats fetch links by themselves.

A link travels through chats and notification services, so it never outlives the rights that its person has at this
moment, and makes no grant unless the gateway's settings permit it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from litestar import MediaType, Request, Response, get, post
from litestar.enums import RequestEncodingType
from litestar.params import Body

from ledger import Session
from ledger.client.results import result_of
from ledger.core.errors import AlreadyAnsweredError, LedgerError, StaleReplyError
from ledger.core.events import Actor
from ledger.core.policy import ReplyKind
from ledger.core.requests import parse_reply
from ledger.core.times import format_time
from ledger.log.reads import AuditedRead
from ledger.session.approvals import may_be_unsigned
from ledger.session.decision import shown_digest
from ledger.session.state import SessionState
from ledger.stores.secrets import link_key
from workers.gateway.authentication import require_own_pages
from workers.gateway.gateway import Gateway, Id, TheGateway
from workers.gateway.principals import LOCAL, Principal, principal_of
from workers.gateway.problems import STATUS
from workers.presentation.answer_page import HEADERS, outcome_page, problem_page, question_page
from workers.runtime.answer_links import AnswerLink, AnswerLinks, BadLinkError

_REPLIES: Final[dict[str, tuple[ReplyKind, ...]]] = {
    "once": ("once", "reject"),
    "session": ("once", "session", "reject"),
    "always": ("once", "session", "always", "reject"),
}


class LinkEndedError(LedgerError):
    """A link of a person who may not answer any more."""

    code = "LINK_ENDED"


class LinkReplyError(LedgerError):
    """An answer that lasts longer than links may give."""

    code = "LINK_REPLY"


class Rights(msgspec.Struct, frozen=True):
    """The answers that a link may give, and the person who gives them."""

    actor: Actor
    replies: tuple[ReplyKind, ...]

    def require(self, reply: ReplyKind) -> None:
        """Raise LinkReplyError for an answer that lasts too long."""
        if reply not in self.replies:
            allowed = ", ".join(f"`{one}`" for one in self.replies)
            raise LinkReplyError(
                f"a link may not answer `{reply}`, only {allowed}; sign in to the inbox for more, "
                "or start the gateway with `--link-answers`"
            )


async def rights_of(gateway: Gateway, link: AnswerLink, state: SessionState) -> Rights:
    """Return the rights of a link in its session. Raises LinkEndedError, StoreError."""
    principal = await _principal(gateway, link, state)
    replies = _REPLIES[gateway.settings.link_answers]
    if state.project is not None and not principal.reaches_project(state.project):
        replies = tuple(one for one in replies if one != "always")
    return Rights(msgspec.structs.replace(principal.actor, name=link.name), replies)


async def _principal(gateway: Gateway, link: AnswerLink, state: SessionState) -> Principal:
    person = await gateway.tokens.person(link.name)
    token = person.token_for(state.session_id, state.project)
    if token is not None:
        return principal_of(token, "link")
    if gateway.settings.open_to_all and not person.is_known:
        # Without tokens nobody has one; a person whose token was revoked is still refused.
        return msgspec.structs.replace(LOCAL, via="link")
    raise LinkEndedError(
        f"this link ended with the access of `{link.name}`: no token in force of that name answers in session "
        f"`{state.session_id}`; an administrator makes one with `token create {link.name} --role approver`"
    )


class LinkAnswer(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The form of the page."""

    reply: str
    message: str = ""


AnswerForm = Annotated[LinkAnswer, Body(media_type=RequestEncodingType.URL_ENCODED)]


@get("/answer/{link:str}", include_in_schema=False, operation_id="show_answer")
async def show_answer(link: Id, gateway: TheGateway) -> Response[str]:
    """Return the page of the request with its buttons, or of its outcome."""
    try:
        found = await _read(gateway, link)
        gateway.reads.note(
            AuditedRead(kind="link_view", name=found.name, via="link", session=found.session, what=found.request_id)
        )
        return await _standing(gateway, found, await _rights(gateway, found))
    except LedgerError as error:
        return _problem(error)


@post("/answer/{link:str}", status_code=200, include_in_schema=False, operation_id="answer_by_link")
async def answer_by_link(
    link: Id, data: AnswerForm, request: Request[Any, Any, Any], gateway: TheGateway
) -> Response[str]:
    """Answer in the name of the link's person, for the request as it was shown, within the person's present rights."""
    try:
        require_own_pages(request, gateway)
        found = await _read(gateway, link)
        rights = await _rights(gateway, found)
        reply = parse_reply(data.reply)
        rights.require(reply)
        try:
            await Session(gateway.ledger, found.session).reply(
                found.request_id,
                reply,
                actor=rights.actor,
                message=data.message.strip() or None if reply == "reject" else None,
                digest=found.digest,
            )
        except (AlreadyAnsweredError, StaleReplyError) as error:
            return await _standing(gateway, found, rights, STATUS[error.code])
        return await _standing(gateway, found, rights)
    except LedgerError as error:
        return _problem(error)


async def _read(gateway: Gateway, text: str) -> AnswerLink:
    try:
        return AnswerLinks(await link_key(gateway.ledger.store)).read(text, gateway.now_ms)
    except BadLinkError as error:
        replaced_ms = await gateway.tokens.links_replaced_ms()
        if replaced_ms is None:
            raise
        raise BadLinkError(
            f"all links from before {format_time(replaced_ms)} were ended; open the inbox, or wait for the next "
            f"notification. Of a newer link: {error.text}"
        ) from error


async def _rights(gateway: Gateway, link: AnswerLink) -> Rights:
    return await rights_of(gateway, link, await Session(gateway.ledger, link.session).state())


async def _standing(gateway: Gateway, link: AnswerLink, rights: Rights, status: int = 200) -> Response[str]:
    state = await Session(gateway.ledger, link.session).state()
    result = result_of(state, link.request_id)
    if shown_digest(result.request) != link.digest:
        text = "the request is not the one that this link was made for; open the inbox"
        return _html(problem_page("The request has changed", text), STATUS["DIGEST_MISMATCH"])
    if result.outcome is None:
        replies = [one for one in rights.replies if may_be_unsigned(result.request, one, rights.actor)]
        return _html(question_page(state, result.request, link.name, gateway.now_ms, replies), status)
    return _html(outcome_page(result, link.name, gateway.now_ms), status)


def _problem(error: LedgerError) -> Response[str]:
    return _html(problem_page("This cannot be answered here", error.text), STATUS.get(error.code, 500))


def _html(page: str, status: int) -> Response[str]:
    return Response(page, status_code=status, media_type=MediaType.HTML, headers=HEADERS)
