"""Which custom gradients a program calls, and how: by watching the frameworks while it runs."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gradcheck_cli.frameworks.load import load
from gradcheck_cli.frameworks.seam import CustomGradient, Framework
from gradcheck_cli.inputs.infer.calls import signature_of
from gradcheck_cli.inputs.spec import Signature

WATCHED = ("jax", "tensorflow", "torch")
_MOST_SIGNATURES = 2
_MOST_CALLS = 64  # of one gradient that are looked at


@dataclass(slots=True)
class Called:
    """One custom gradient, with the different ways in which it was called."""

    gradient: CustomGradient
    framework: Framework
    signatures: dict[str, Signature] = field(default_factory=dict)
    seen: int = 0


class Recorder:
    """Watches every framework that is imported by then; `watch` may be asked again and again."""

    def __init__(self) -> None:
        self.called: dict[int, Called | None] = {}
        self._kept: list[object] = []  # so that an identity stays one object's
        self._watched: set[str] = set()
        self._stack = ExitStack()

    def watch(self) -> None:
        for name in WATCHED:
            if name in sys.modules and name not in self._watched:
                self._watched.add(name)
                framework = load(name)
                self._stack.enter_context(framework.watching(self._noting(framework)))

    def stop(self) -> list[Called]:
        """What was called, in the order of first calls."""
        self._stack.close()
        return [c for c in self.called.values() if c is not None]

    def _noting(self, framework: Framework) -> Any:
        def note(thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if id(thing) not in self.called:
                self._kept.append(thing)
                self.called[id(thing)] = self._adopted(framework, thing)
            called = self.called[id(thing)]
            if called is None or called.seen >= _MOST_CALLS:
                return
            called.seen += 1
            if len(called.signatures) < _MOST_SIGNATURES:
                parameters = called.gradient.parameters()
                made = signature_of(parameters, args, kwargs, "a recorded call")
                if made is not None and made.leaves:
                    shapes = [leaf.shape for leaf in made.leaves]
                    called.signatures.setdefault(f"{made.describe()} {shapes}", made)

        return note

    def _adopted(self, framework: Framework, thing: Any) -> Called | None:
        """None for a library's own."""
        name = getattr(thing, "__name__", type(thing).__name__)
        home: Any = SimpleNamespace(**{name: thing})
        gradient = framework.named(home, name, "", own)
        if gradient is None or not own(gradient.place.path):
            return None
        return Called(gradient, framework)


def own(path: str) -> bool:
    """Is this file the user's?"""
    return bool(path) and "/site-packages/" not in path and "/gradcheck_cli/" not in path
