"""The embedded server: a real Redis or Valkey for one data folder, started, shared and stopped by its users."""

from ledger.stores.embedded.errors import EmbeddedServerError, NoServerBinaryError
from ledger.stores.embedded.launch import ServerBinary
from ledger.stores.embedded.server import EmbeddedServer, embedded_server, is_running, stop

__all__ = [
    "EmbeddedServer",
    "EmbeddedServerError",
    "NoServerBinaryError",
    "ServerBinary",
    "embedded_server",
    "is_running",
    "stop",
]
