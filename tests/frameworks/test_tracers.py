"""Without the library that traces it, a framework's gradient has no program, and the reason says what to install."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.frameworks.shared.tracing import Untraceable


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
