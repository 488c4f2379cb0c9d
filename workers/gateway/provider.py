"""An OpenID Connect provider: its metadata, its keys, and the people who signed in there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from ledger.core.errors import LedgerError, UnauthorizedError
from workers.gateway.provider_settings import OidcSettings, is_safe_url
from workers.gateway.visits import Visit

ANSWER_SECONDS: Final = 10.0
FRESH_SECONDS: Final = 3600.0
"""Cache time of metadata and keys: a withdrawn key is trusted no longer than this."""

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Accepted signatures, by a private key that only the provider has; never `none`, nor a shared secret."""

GROUPS_COUNT_MAX: Final = 1000


class ProviderError(LedgerError):
    """A provider that cannot be reached, or that violates OpenID Connect."""

    code = "PROVIDER"


class AttestedPerson(NamedTuple):
    """A person's name and groups, as attested by the provider."""

    name: str
    groups: frozenset[str]


class Provider:
    """One provider, with its metadata and keys cached; they are fetched at first use."""

    def __init__(self, settings: OidcSettings, now: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._now = now
        self._metadata: tuple[float, Mapping[str, Any]] = (float("-inf"), {})
        self._keys: tuple[float, KeySet] | None = None
        self._asking = asyncio.Lock()
        # Made once, since each takes tens of milliseconds, and whoever opens the sign-in page can have one made.
        self._trusted = httpx2.create_ssl_context()

    async def where_to_sign_in(self, visit: Visit, redirect_uri: str) -> str:
        """Return the provider's address for this visit. Raises ProviderError."""
        metadata = await self._known()
        async with self._client(redirect_uri) as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"], state=visit.state, nonce=visit.nonce, code_verifier=visit.verifier
            )
        return str(url)

    async def where_to_sign_out(self, back: str) -> str | None:
        """Return the provider's address for ending its own session; None where it has none. Raises ProviderError."""
        url = (await self._known()).get("end_session_endpoint")
        if not isinstance(url, str) or not is_safe_url(url):
            return None
        query = {"client_id": self.settings.client_id, "post_logout_redirect_uri": back}
        return str(httpx2.URL(url).copy_merge_params(query))

    async def who_came_back(self, visit: Visit, redirect_uri: str, code: str, issuer: str | None) -> AttestedPerson:
        """Exchange a code for the person who signed in. Raises UnauthorizedError, ProviderError.

        `issuer` is the answer's `iss` (RFC 9207), which a provider that promises it must send.
        """
        metadata = await self._known()
        promised = metadata.get("authorization_response_iss_parameter_supported") is True
        if issuer != self.settings.issuer and (promised or issuer is not None):
            raise UnauthorizedError("the answer comes from another provider; begin the sign-in again")
        async with self._client(redirect_uri) as client:
            try:
                answer = await client.fetch_token(
                    metadata["token_endpoint"], code=code, code_verifier=visit.verifier, grant_type="authorization_code"
                )
            except OAuthError as error:
                raise UnauthorizedError(f"the provider refused the sign-in ({error.error}); begin it again") from None
            except (httpx2.HTTPError, ValueError) as error:
                raise _unreachable(self.settings.issuer, error) from None
            claims = await self._claims(answer, visit.nonce)
            if self.settings.groups_claim not in claims or self.settings.name_claim not in claims:
                claims = {**await self._user_info(client, metadata, claims["sub"]), **claims}
        return self._person(claims)

    # --- tokens -------------------------------------------------------------------------------------------------------

    async def _claims(self, answer: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token after checks of its signature, audience, nonce and time."""
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise ProviderError(
                "the provider sent no ID token; does `scopes` hold `openid`, and may this client use it?"
            )
        try:
            token = await self._decoded(text)
            claims = CodeIDToken(
                token.claims,
                token.header,
                options={
                    "iss": {"essential": True, "value": self.settings.issuer},
                    "aud": {"essential": True, "value": self.settings.client_id},
                    "nonce": {"essential": True, "value": nonce},
                },
                params={
                    "nonce": nonce,
                    "client_id": self.settings.client_id,
                    "access_token": answer.get("access_token"),
                },
            )
            claims.validate(leeway=self.settings.skew_ms // 1000)
        except (JoseError, ValueError, TypeError) as error:
            raise UnauthorizedError(f"the provider's ID token is not valid here ({error}); begin it again") from None
        return dict(claims)

    async def _decoded(self, text: str) -> jwt.Token:
        registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        try:
            return jwt.decode(text, await self._key_set(FRESH_SECONDS), registry=registry)
        except InvalidKeyIdError:
            # The provider has a new key. Only its own answers get here, so nobody can trigger repeated fetches.
            return jwt.decode(text, await self._key_set(0.0), registry=registry)

    def _person(self, claims: Mapping[str, Any]) -> AttestedPerson:
        named, settings = claims.get(self.settings.name_claim), self.settings
        if not isinstance(named, str) or not named:
            raise UnauthorizedError(
                f"the provider does not send the claim `{settings.name_claim}`, by which people are named"
            )
        if settings.name_claim == "email" and claims.get("email_verified") is not True:
            raise UnauthorizedError(f"the provider does not say that the address `{named}` was verified")
        groups = claims.get(settings.groups_claim)
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        return AttestedPerson(named, frozenset(one for one in listed[:GROUPS_COUNT_MAX] if isinstance(one, str)))

    # --- the provider's metadata --------------------------------------------------------------------------------------

    async def _known(self) -> Mapping[str, Any]:
        async with self._asking:
            since, metadata = self._metadata
            if self._now() - since > FRESH_SECONDS:
                url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
                metadata = self._checked(await self._get(url))
                self._metadata = (self._now(), metadata)
        return metadata

    def _checked(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        if metadata.get("issuer") != self.settings.issuer:
            told = metadata.get("issuer")
            raise ProviderError(f"the provider calls itself `{told}`, and the settings `{self.settings.issuer}`")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            url = metadata.get(name)
            if not isinstance(url, str) or not is_safe_url(url):
                raise ProviderError(f"the provider's `{name}` is no https:// address")
        return metadata

    async def _key_set(self, fresh_seconds: float) -> KeySet:
        uri = (await self._known())["jwks_uri"]
        async with self._asking:
            if self._keys is None or self._now() - self._keys[0] >= fresh_seconds:
                told: Any = await self._get(uri)
                self._keys = (self._now(), KeySet.import_key_set(told))
            return self._keys[1]

    async def _user_info(self, client: AsyncOAuth2Client, metadata: Mapping[str, Any], subject: str) -> dict[str, Any]:
        """Return the claims of the same person that the ID token lacks."""
        url = metadata.get("userinfo_endpoint")
        if not isinstance(url, str) or not is_safe_url(url):
            return {}
        found = await self._json(client.get(url))
        if found.get("sub") != subject:
            raise UnauthorizedError("the provider names another person than the one who signed in")
        return found

    async def _get(self, url: str) -> dict[str, Any]:
        async with httpx2.AsyncClient(timeout=ANSWER_SECONDS, verify=self._trusted) as client:
            return await self._json(client.get(url))

    async def _json(self, asking: Any) -> dict[str, Any]:
        try:
            answer = await asking
            answer.raise_for_status()
            found = answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise _unreachable(self.settings.issuer, error) from None
        if not isinstance(found, dict):
            raise ProviderError(f"the provider `{self.settings.issuer}` answered with something other than an object")
        return found

    def _client(self, redirect_uri: str) -> AsyncOAuth2Client:
        settings = self.settings
        return AsyncOAuth2Client(
            settings.client_id,
            settings.client_secret,
            token_endpoint_auth_method="none" if settings.client_secret is None else "client_secret_basic",
            scope=" ".join(settings.scopes),
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            timeout=ANSWER_SECONDS,
            verify=self._trusted,
        )


def _unreachable(issuer: str, error: Exception) -> ProviderError:
    return ProviderError(f"the provider `{issuer}` cannot be asked ({type(error).__name__}); try again")
