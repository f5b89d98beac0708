"""What the command line and the fork server send each other."""

from __future__ import annotations

import msgspec
import pytest

from gradcheck_cli.workers import messages, wire
from gradcheck_cli.workers.messages import Broken, Exited, Launch, Ready, Started

SENT = [Ready(imports=1), Broken(reason="no jax"), Started(job=1, pid=2), Exited(job=1, status=-9)]


@pytest.mark.parametrize("message", SENT, ids=lambda message: type(message).__name__)
def test_a_message_of_the_server_comes_back_as_what_it_was(message: object) -> None:
    (data,) = wire.Reader().feed(wire.frame(message))
    assert messages.decode(data) == message


def test_an_order_to_the_server_is_none_of_its_messages() -> None:
    with pytest.raises(msgspec.ValidationError):
        messages.decode(msgspec.msgpack.encode(Launch(job=1)))
