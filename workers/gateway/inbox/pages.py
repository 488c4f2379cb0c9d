"""The page and its files. They hold nothing of any session, so they are served to everybody.

What they show is asked of `/v1` with the browser's cookie.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from workers.gateway.inbox.files import SHELL, StaticFile, static_files

HEADERS: Final = {
    # Nothing but our own files runs or is loaded, and no other page may frame this one to steal a click.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        # Text never becomes markup or code: no script of ours does it, and the browser lets none.
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cache-Control": "no-cache",  # ask each time whether it changed: a new gateway brings a new page at once
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # a sign-in code stands in an address
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@get(
    ["/", "/sign-in", "/sessions", "/sessions/{session:path}", "/grants", "/account"],
    include_in_schema=False,
    operation_id="inbox_page",
    sync_to_thread=False,
)
def inbox_page(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The inbox. A sign-in link leads here too: it is used up by the button only, not by programs that look at links."""
    return _sent(request, static_files()[SHELL])


@get("/inbox/{path:path}", include_in_schema=False, operation_id="inbox_file", sync_to_thread=False)
def inbox_file(request: Request[Any, Any, Any], path: FromPath[str]) -> Response[bytes]:
    """A file of the inbox."""
    file = static_files().get(path.lstrip("/"))
    if file is None:
        raise NotFoundException("the inbox has no such file")
    return _sent(request, file)


def _sent(request: Request[Any, Any, Any], file: StaticFile) -> Response[bytes]:
    headers = {**HEADERS, "ETag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(b"", status_code=HTTPStatus.NOT_MODIFIED, headers=headers, media_type=file.media_type)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


HANDLERS: list[Any] = [inbox_page, inbox_file]
