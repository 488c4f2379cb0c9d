"""The page and its files. They contain no data of any session, so they are served to everybody.

The page requests its data from `/v1` with the browser's cookie.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from workers.gateway.inbox.files import SHELL, WORKER, StaticFile, inline_hashes, served_files, static_files

HEADERS: Final = {
    # Only our own files run or load, and no other page may frame this one for clickjacking.
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'self' {' '.join(inline_hashes()['script-src'])}; "
        f"style-src {' '.join(inline_hashes()['style-src'])}; connect-src 'self'; img-src 'self' data:; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        # Text never becomes markup or code: our scripts do not do it, and the browser forbids it.
        # The one policy makes the address of the service worker, and nothing else (`push.js`).
        "require-trusted-types-for 'script'; trusted-types service-worker"
    ),
    "Cache-Control": "no-cache",  # revalidate each time: a new gateway serves a new page at once
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # an address may contain a sign-in code
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

WORKER_POLICY: Final = "default-src 'none'; connect-src 'self'; img-src 'self'"

KEPT: Final = "public, max-age=31536000, immutable"
"""Cache-Control of files whose path has the digest of their content: the page names others after an upgrade."""


@get(
    [
        "/",
        "/sign-in",
        "/sessions",
        "/sessions/{session:path}",
        "/requests/{request_id:path}",
        "/next",
        "/grants",
        "/account",
        "/notifications",
    ],
    include_in_schema=False,
    operation_id="inbox_page",
    sync_to_thread=False,
)
def inbox_page(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the page of the inbox.

    A sign-in link leads here too. Only the button uses it up, not programs that fetch links.
    """
    return _sent(request, served_files()[SHELL])


@get("/inbox/{path:path}", include_in_schema=False, operation_id="inbox_file", sync_to_thread=False)
def inbox_file(request: Request[Any, Any, Any], path: FromPath[str]) -> Response[bytes]:
    """Return a file of the inbox."""
    file = served_files().get(path.lstrip("/"))
    if file is None:
        raise NotFoundException("the inbox has no such file")
    return _sent(request, file)


@get("/sw.js", include_in_schema=False, operation_id="service_worker", sync_to_thread=False)
def service_worker(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the service worker, at the root because it serves all pages. It loads its icons and calls `/v1` alone."""
    return _sent(request, static_files()[WORKER], {**HEADERS, "Content-Security-Policy": WORKER_POLICY})


def _sent(request: Request[Any, Any, Any], file: StaticFile, headers: Mapping[str, str] = HEADERS) -> Response[bytes]:
    headers = {**headers, "ETag": file.etag}
    if file.is_immutable:
        headers["Cache-Control"] = KEPT
    if request.headers.get("if-none-match") == file.etag:
        return Response(b"", status_code=HTTPStatus.NOT_MODIFIED, headers=headers, media_type=file.media_type)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


HANDLERS: list[Any] = [inbox_page, inbox_file, service_worker]
