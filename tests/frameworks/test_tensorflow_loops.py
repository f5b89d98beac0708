"""Graphs of unrolled loops: the ends that a node leads to are told once, however many ways there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.needs("tensorflow")


def node(name: str, *inputs: str) -> Any:
    return SimpleNamespace(name=name, inputs=[SimpleNamespace(op_name=each) for each in inputs])


def test_the_ends_of_sixty_trips_that_read_their_state_twice() -> None:
    from gradcheck_cli.frameworks.tensorflow.trace import _ends_told_once

    nodes = [node("start")]
    for trip in range(60):
        before = "start" if not trip else f"both{trip - 1}"
        nodes += [node(f"a{trip}", before), node(f"b{trip}", before)]
        nodes += [node(f"both{trip}", f"a{trip}", f"b{trip}")]
    inner = SimpleNamespace(_get_consumers_and_producers_fns="as it was")
    with _ends_told_once(inner):
        functions: Any = inner._get_consumers_and_producers_fns
        ends, sources = functions([*nodes, node("other", "a0")])
    assert sorted(ends("start")) == ["both59", "other"]
    assert ends("both59") == ["both59"]
    assert sources("b1") == {"b1", "both0", "a0", "b0", "start"}
    assert inner._get_consumers_and_producers_fns == "as it was"
