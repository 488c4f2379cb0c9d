"""The fixtures of the helpers, for the helpers' own tests."""

from tests.support.servers import shared_server, start_server

__all__ = ["shared_server", "start_server"]
