"""Without the library that traces it, a framework's gradient has no program, and the reason says what to install."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.frameworks.shared.tracing import Untraceable, brief


@pytest.mark.parametrize(("framework", "tracer"), [("torch", "torchax"), ("tensorflow", "tf2jax")])
@pytest.mark.slow  # imports the framework
@pytest.mark.needs("tensorflow", "torch")
def test_what_to_install_is_told(
    framework: str, tracer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader, traced = tracing_of(framework)
    loader.cache_clear()
    monkeypatch.setitem(sys.modules, tracer, None)
    try:
        with pytest.raises(Untraceable, match=f"not installed: pip install {tracer}"):
            traced(lambda x: x, [])
    finally:
        loader.cache_clear()


def tracing_of(framework: str) -> tuple[Any, Callable[..., Any]]:
    """What imports the tracer, once a process, and what traces with it."""
    if framework == "torch":
        from gradcheck_cli.frameworks.torch import trace

        return trace._environment, trace.traced
    from gradcheck_cli.frameworks.tensorflow import trace as graphs

    return graphs._tf2jax, graphs.traced


def test_an_error_at_a_node_of_a_graph_is_what_is_said_of_the_node() -> None:
    text = """Graph execution error:

Detected at node 'Where' defined at (most recent call last):
    File "model.py", line 33, in sum_to_shape
Node: 'Where'
WhereOp : Unhandled input dimensions: 0
\t [[{{node Where}}]]
"""
    assert brief(ValueError(text)) == "ValueError: WhereOp : Unhandled input dimensions: 0"
    assert brief(ValueError("no\nsuch shape\n\nbut others")) == "ValueError: no such shape"
