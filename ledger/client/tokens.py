"""The client of access tokens: create, find, list, revoke. The secret is shown once and stored nowhere."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from ledger.access.state import AccessState, ClaimProject, CreateToken, NoteLinkKey, RevokeToken, Token, is_taken
from ledger.core.access_events import Role, TokenUse
from ledger.core.characters import person_key
from ledger.core.errors import InputError, UnauthorizedError
from ledger.core.events import Actor
from ledger.core.ids import check_id, new_id, strange_cursor
from ledger.core.requests import check_folder, check_message, check_name
from ledger.core.times import check_duration_ms, format_time
from ledger.log.inboxes import TokenHolder, person_of
from ledger.log.stream import Stream
from ledger.stores.secrets import replace_link_key

if TYPE_CHECKING:
    from ledger.client.context import Context
    from ledger.client.lookups import WaitingSessions
    from ledger.client.passkeys import PasskeyBook

PREFIX: Final = "plt"
"""The prefix of every token's text, for scanners of leaked secrets."""

PROOF_PREFIX: Final = "plp"
"""The prefix of the second secret of a browser's token."""

SECRET_BYTES: Final = 32
TOKEN_TEXT_CHARS: Final = 200
SCOPE_COUNT: Final = 64
"""The maximum of projects, or of sessions, of one token."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)


class Made(NamedTuple):
    """A new token, and its text `plt_<id>_<secret>`, which cannot be shown again.

    `proof` is a browser token's second secret, stored apart from the cookie with the text.
    """

    token: Token
    text: str
    proof: str | None = None


class Tokens:
    """The tokens of a deployment, kept current by wake-ups: a revoked one is refused everywhere without delay."""

    def __init__(self, context: Context, passkeys: PasskeyBook, waiting: WaitingSessions) -> None:
        self._context = context
        self._passkeys = passkeys
        self._waiting = waiting
        self._stream: Stream[AccessState] = context.streams.access()

    async def watch(self) -> None:
        """Subscribe to changes: after the return, tokens of other processes are known here. Raises StoreError."""
        await self._context.streams.watch(self._stream)
        self._stream.observe(lambda _: None)

    def on_change(self, observer: Callable[[], None]) -> None:
        """Call `observer` when a token was created or revoked, while this process watches."""
        self._stream.observe(lambda _: observer())

    async def create(
        self,
        name: str,
        role: Role,
        *,
        projects: Iterable[str] = (),
        sessions: Iterable[str] = (),
        expires_in_ms: int | None = None,
        brings_rules: bool = False,
        owner: str | None = None,
        everything: bool = False,
        any_project: bool = False,
        folders: Sequence[str] = (),
        use: TokenUse = "bearer",
        made_from: str | None = None,
        redeems: str | None = None,
        secret: str | None = None,
        token_id: str | None = None,
        actor: Actor | str | None = None,
    ) -> Made:
        """Create a token.

        An agent's token reaches the sessions opened with it, in one project: that of `projects`, else the first one in
        which it opens a session. `any_project` lifts the second bound, `everything` both. `owner` is the person for
        whom an agent works (default: the token's creator); `folders` are those in which its sessions may work. `secret`
        and `token_id` make the call idempotent. Raises InputError.
        """
        if role not in ROLES:
            raise InputError(f"`{role}` is not a role; use one of {', '.join(ROLES)}")
        if brings_rules and role not in ("agent", "admin"):
            raise InputError(f"only tokens of role agent bring rules, not a token of role {role}")
        if role != "agent" and (everything or any_project or folders):
            raise InputError(
                f"`everything`, `any_project` and folders are for tokens of role agent, not for role {role}"
            )
        secret = secrets.token_urlsafe(SECRET_BYTES) if secret is None else secret
        proof = f"{PROOF_PREFIX}_{secrets.token_urlsafe(SECRET_BYTES)}" if use == "browser" else None
        command = CreateToken(
            actor=self._context.actor(actor, "person"),
            token_id=new_id("tok") if token_id is None else check_id(token_id, "token id"),
            name=check_name(name, "name"),
            role=role,
            digest=digest_of(secret),
            use=use,
            projects=_scope(projects, "project id"),
            sessions=_scope(sessions, "session id"),
            brings_rules=brings_rules,
            expires_in_ms=None if expires_in_ms is None else check_duration_ms(expires_in_ms, "time to live"),
            made_from=made_from,
            redeems=redeems,
            proof_digest=None if proof is None else digest_of(proof),
            owner=None if owner is None else check_name(owner, "owner"),
            everything=everything,
            any_project=any_project,
            folders=_folders(folders),
        )
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        return Made(done.state.tokens[command.token_id], f"{PREFIX}_{command.token_id}_{secret}", proof)

    async def claim(self, token_id: str, project: str) -> str | None:
        """Bind an agent's token to the project of its first session; return the bound project.

        None for a token that is not bound in this way. Raises UnknownTokenError, StoreError.
        """
        command = ClaimProject(actor=self._context.actor(None, "system"), token_id=token_id, project=project)
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        return done.state.tokens[token_id].claimed

    def claimed_by(self, token: Token) -> str | None:
        """Return the project to which its first session bound a token, or a browser token's origin."""
        return self._stream.state.tokens.get(token.root_id, token).claimed

    async def find(self, text: str) -> Token:
        """Return the token in force with this text, read from the server if unknown. Raises UnauthorizedError."""
        token_id, secret = parse_token(text)
        if not self._stream.folded:
            await self._stream.refresh()
        found = self.held(token_id)
        if found is None:
            # Another process may have just created it; a wrong token costs one read from the server.
            await self._stream.refresh()
            found = self.held(token_id)
        if found is None or not hmac.compare_digest(found.digest, digest_of(secret)):
            raise UnauthorizedError("the token is not known here, revoked or expired; ask for a new one")
        return found

    def held(self, token_id: str) -> Token | None:
        """Return a token that is in force, as far as this process knows."""
        return self._stream.state.token(token_id, self._context.store.clock.now_ms())

    def known(self, text: str) -> Token | None:
        """Return the token in force with this text, as far as this process knows. Raises UnauthorizedError."""
        token_id, secret = parse_token(text)
        found = self.held(token_id)
        return found if found is not None and hmac.compare_digest(found.digest, digest_of(secret)) else None

    def still_in_force(self, token_id: str) -> bool:
        """Return whether a token is still in force, as far as this process knows."""
        return self.held(token_id) is not None

    async def named(self, token_id: str) -> Token | None:
        """Return a token by its id, also an ended one. Raises StoreError."""
        return (await self._stream.refresh()).tokens.get(token_id)

    async def all(self) -> list[Token]:
        """Return all tokens, ended ones included, in order of creation."""
        state = await self._stream.refresh()
        return sorted(state.tokens.values(), key=lambda token: (token.at_ms, token.token_id))

    async def is_taken(self, name: str, maker: Actor) -> bool:
        """Return whether a name belongs to somebody else, by tokens and passkeys. Raises StoreError."""
        if is_taken(await self._stream.refresh(), name, maker):
            return True
        people = {person_key(one.person) for one in await self._passkeys.all()} - {person_key(maker.person)}
        return person_key(name) in people

    async def page(self, cursor: str | None) -> list[Token]:
        """Return all tokens after the one with this id (None: all), in order of creation. Raises InputError."""
        found = await self.all()
        if cursor is None:
            return found
        places = [number for number, token in enumerate(found) if token.token_id == cursor]
        if not places:
            raise strange_cursor(cursor)
        return found[places[0] + 1 :]

    async def until_over(self, token_id: str) -> None:
        """Return when the token is not in force any more, as far as this process knows."""
        clock = self._context.store.clock
        changed = asyncio.Event()
        stop = self._stream.observe(lambda _: changed.set())
        try:
            while (token := self.held(token_id)) is not None:
                changed.clear()
                waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(changed.wait())]
                if token.expires_ms is not None:
                    waits.append(asyncio.ensure_future(clock.wait_until(token.expires_ms)))
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
        finally:
            stop()

    async def confirm(self, token_id: str) -> bool:
        """Return whether a token is still in force, read from the server. Raises StoreError."""
        await self._stream.refresh()
        return self.still_in_force(token_id)

    async def revoke(self, token_id: str, *, reason: str | None = None, actor: Actor | str | None = None) -> Token:
        """Revoke a token, the browser tokens made from it, and cancel the pending requests of its holder.

        A repeated call completes a partial one. Raises UnknownTokenError, StoreError.
        """
        command = RevokeToken(
            actor=self._context.actor(actor, "person"),
            token_id=check_id(token_id, "token id"),
            reason=check_message(reason, "reason"),
        )
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        await self._waiting.cancel_of_token(token_id)
        return done.state.tokens[token_id]

    async def person(self, name: str) -> TokenHolder:
        """Return the person of this name by the current tokens, read from the server. Raises StoreError."""
        return person_of(await self._stream.refresh(), name, self._context.store.clock.now_ms())

    async def links_replaced_ms(self) -> int | None:
        """Return when (server ms) the key of answer links was last replaced; None is never. Raises StoreError."""
        return (await self._stream.refresh()).links_replaced_ms

    async def rotate_links(self, *, reason: str | None = None, actor: Actor | str | None = None) -> None:
        """Invalidate all issued answer links by a new signing key. Raises StoreError."""
        command = NoteLinkKey(actor=self._context.actor(actor, "person"), reason=check_message(reason, "reason"))
        # The key first: an event without a new key would record an end of links that are still valid.
        await replace_link_key(self._context.store)
        await self._stream.submit(command)


def parse_token(text: str) -> tuple[str, str]:
    """Split a token's text into id and secret. Raises UnauthorizedError."""
    # Ids contain one `_` (`tok_…`); the secret may contain any number.
    parts = text.split("_", 3) if len(text) <= TOKEN_TEXT_CHARS else []
    if len(parts) != 4 or parts[0] != PREFIX or not parts[3]:
        raise UnauthorizedError(f"this is not a token; tokens begin with `{PREFIX}_`")
    return f"{parts[1]}_{parts[2]}", parts[3]


def digest_of(secret: str) -> str:
    """Return the stored digest of a token's secret, which has 256 random bits, so that a plain SHA-256 is enough."""
    return sha256(secret.encode()).hexdigest()


def is_proof_of(token: Token, proof: str) -> bool:
    """Return whether this is the second secret of a browser token; False for a token without one."""
    return token.proof_digest is not None and hmac.compare_digest(token.proof_digest, digest_of(proof))


def token_json(token: Token, now_ms: int) -> dict[str, Any]:
    """Return one row of `token list`."""
    return {
        "token_id": token.token_id,
        "name": token.name,
        "role": token.role,
        "use": token.use,
        "projects": list(token.projects),
        "sessions": list(token.sessions),
        "brings_rules": token.brings_rules,
        "everything": token.everything,
        "any_project": token.any_project,
        "claimed": token.claimed,
        "folders": list(token.folders),
        "owner": token.owner,
        "by": token.by.name,
        "made_by": token.made_by,
        "at": format_time(token.at_ms),
        "expires_at": None if token.expires_ms is None else format_time(token.expires_ms),
        "revoked_at": None if token.revoked_ms is None else format_time(token.revoked_ms),
        "made_from": token.made_from,
        "in_force": token.in_force(now_ms),
    }


def _folders(values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or len(values) > SCOPE_COUNT:
        raise InputError(f"a token is bound to a list of {SCOPE_COUNT} folders at most")
    return tuple(dict.fromkeys(folder for value in values if (folder := check_folder(value, "folder"))))


def _scope(values: Iterable[str], what: str) -> tuple[str, ...]:
    checked = tuple(dict.fromkeys(check_id(value, what) for value in values))
    if len(checked) > SCOPE_COUNT:
        raise InputError(f"a token can be bound to {SCOPE_COUNT} at most, not to {len(checked)} {what}s")
    return checked
