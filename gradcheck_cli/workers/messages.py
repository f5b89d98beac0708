"""What the CLI and the fork server tell each other."""

from __future__ import annotations

import msgspec


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The framework is imported; forks are cheap from here on. `imports` counts them."""

    imports: int


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The framework could not be imported."""

    reason: str


class Launch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fork a worker around the socket that comes with this message."""

    job: int


class Started(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker was forked."""

    job: int
    pid: int


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker has ended; `status` is as `os.waitstatus_to_exitcode` gives it: negative for a signal."""

    job: int
    status: int


ServerMessage = Ready | Broken | Started | Exited


def decode(data: bytes) -> ServerMessage:
    """One message of the server."""
    message: ServerMessage = msgspec.msgpack.decode(data, type=ServerMessage)
    return message
