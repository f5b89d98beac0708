"""Frames on the wire: whole again wherever they are cut, and refused when they are none."""

from __future__ import annotations

import socket

import pytest

from gradcheck_cli.contract.worker import Doing, Phase, decode_event
from gradcheck_cli.workers import wire

EVENTS = [Doing(phase=Phase.RUNNING, detail="x" * n, gradient="f", line=n) for n in (0, 1, 300)]
STREAM = b"".join(wire.frame(event) for event in EVENTS)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, len(STREAM)])
def test_frames_cut_anywhere_come_out_whole(size: int) -> None:
    reader = wire.Reader()
    pieces = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    assert [decode_event(frame) for frame in frames] == EVENTS


def test_half_a_frame_is_kept_until_the_rest_comes() -> None:
    reader = wire.Reader()
    assert len(reader.feed(STREAM[:-1])) == len(EVENTS) - 1
    assert [decode_event(frame) for frame in reader.feed(STREAM[-1:])] == EVENTS[-1:]


def test_a_length_that_no_worker_sends_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        wire.Reader().feed(b"\xff\xff\xff\xff")


def test_a_message_goes_through_a_socket_and_the_end_is_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire.send(theirs, EVENTS[2])
        theirs.close()
        data = wire.receive(ours)
        assert data is not None
        assert decode_event(data) == EVENTS[2]
        assert wire.receive(ours) is None


def test_a_message_that_ends_in_the_middle_is_no_message() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(wire.frame(EVENTS[2])[:-1])
        theirs.close()
        assert wire.receive(ours) is None
