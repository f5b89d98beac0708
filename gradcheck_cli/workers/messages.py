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
    job: int
    pid: int


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`status` as `os.waitstatus_to_exitcode` gives it: negative for a signal."""

    job: int
    status: int


Said = Ready | Broken | Started | Exited


def decode(data: bytes) -> Said:
    """One message of the server."""
    message: Said = msgspec.msgpack.decode(data, type=Said)
    return message
