"""A test's own OpenID Connect provider, which can be set to lie: real HTTP, real keys, real signatures."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT: Final = "permission-ledger"
SECRET: Final = "a-secret-of-the-test"

Claims = dict[str, Any]


@cache
def key_named(kid: str) -> RSAKey:
    """Return the key of this name, made once for all tests: making one takes 0.1 s of processor time."""
    return RSAKey.generate_key(2048, parameters={"kid": kid})


class LyingProvider:
    """Signs people in as OpenID Connect requires, except for the changes of a test."""

    def __init__(self) -> None:
        self.person: Claims = {"sub": "1", "email": "ann@example.com", "email_verified": True, "groups": ["shop"]}
        self.user_info: Claims = {"sub": "1"}
        self.metadata: Claims = {}
        """Members of the metadata that are replaced."""
        self.change: Callable[[Claims], Claims] = dict
        """A change to the claims of an ID token, made before they are signed."""
        self.sign: Callable[[Claims], str] = self.signed
        self.keys = [key_named("key-1")]
        self.asked: list[str] = []
        self._visits: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def signed(self, claims: Claims) -> str:
        """Sign claims with the newest key."""
        return jwt.encode({"alg": "RS256", "kid": self.keys[-1].kid}, claims, self.keys[-1])

    def take_new_key(self) -> None:
        """Replace the signing key; the old one is withdrawn."""
        self.keys = [key_named("key-2")]

    def signs_in(self, address: str) -> dict[str, str]:
        """Return what a person's browser brings back from this address: code, state and the provider's own name."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["client_id"] == CLIENT
        code = f"code-{len(self._visits)}"
        self._visits[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.issuer}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(provider._read(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                self._answer(provider._exchange({k: v[0] for k, v in parse_qs(body).items()}, self.headers))

            def _answer(self, body: Claims | None) -> None:
                content = json.dumps({"error": "invalid_grant"} if body is None else body).encode()
                self.send_response(400 if body is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _read(self, path: str) -> Claims | None:
        self.asked.append(path)
        known: dict[str, Any] = {
            "/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/auth",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/jwks",
                "userinfo_endpoint": f"{self.issuer}/me",
                "end_session_endpoint": f"{self.issuer}/end",
                "authorization_response_iss_parameter_supported": True,
                **self.metadata,
            },
            "/jwks": KeySet(list(self.keys)).as_dict(private=False),
            "/me": self.user_info,
        }
        return known.get(path)

    def _exchange(self, form: dict[str, str], headers: Any) -> Claims | None:
        """Exchange a code, valid once, for the client that asked, with the verifier that fits the challenge."""
        visit = self._visits.pop(form.get("code", ""), None)
        sent = b64decode(headers.get("authorization", "").removeprefix("Basic ")).decode()
        challenge = urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        if visit is None or sent != f"{CLIENT}:{SECRET}" or challenge != visit["code_challenge"]:
            return None
        if form["redirect_uri"] != visit["redirect_uri"]:
            return None
        now = int(time.time())
        own = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": visit["nonce"]}
        return {
            "access_token": "access",
            "token_type": "Bearer",
            "id_token": self.sign(self.change({**own, **self.person})),
        }

    @contextmanager
    def serving(self) -> Iterator[LyingProvider]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
