"""The rights of an answer link: those that its person has at this moment, further limited by the gateway's settings.

A link travels through chats and notification services, so it never outlives the person's rights. It makes no grant
unless the gateway's settings permit it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.core.errors import LedgerError
from ledger.core.events import Actor
from ledger.core.policy import ReplyKind
from ledger.session.state import SessionState
from workers.gateway.gateway import Gateway
from workers.gateway.principals import LOCAL, Principal, principal_of
from workers.runtime.answer_links import AnswerLink

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
