"""Frames of msgpack over a socket: structs only, never pickles, never stdout."""

from __future__ import annotations

import socket
import struct
from typing import TypeVar

import msgspec

_HEAD = struct.Struct("!I")
# A frame longer than this is not ours: the worker's memory is in disorder.
MAX_FRAME = 64 * 1024 * 1024

T = TypeVar("T")


def frame(message: object) -> bytes:
    data = msgspec.msgpack.encode(message)
    return _HEAD.pack(len(data)) + data


def send(sock: socket.socket, message: object) -> None:
    sock.sendall(frame(message))


def receive(sock: socket.socket) -> bytes | None:
    """The next frame, or None at the end. Blocks."""
    head = _exactly(sock, _HEAD.size)
    if head is None:
        return None
    return _exactly(sock, _HEAD.unpack(head)[0])


def decode(data: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(data, type=kind)


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        chunk = sock.recv(count - len(parts))
        if not chunk:
            return None
        parts += chunk
    return bytes(parts)


class Reader:
    """Collects frames from a socket that must not block."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The complete frames that have arrived. Raises ValueError on nonsense."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise ValueError("frame too long")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                break
            frames.append(bytes(self._buffer[_HEAD.size : end]))
            del self._buffer[:end]
        return frames
