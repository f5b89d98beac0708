"""Which custom gradients a program calls, and how: by watching the frameworks while it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gradcheck_cli.contract.recorded import RecordedCall
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.infer.calls import signature_of
from gradcheck_cli.infer.recalled import SOURCE
from gradcheck_cli.inputs.parameters import expanded
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.project.framework_marks import WATCHED
from gradcheck_cli.project.recorded_calls import MOST_CALLS, Calls
from gradcheck_cli.record.encode import kept
from gradcheck_cli.subject.protocol import CustomGradient, Framework

_MOST_SIGNATURES = 2  # that are checked in the tests' own process
_MOST_CALLS = 64  # of one gradient that are looked at


@dataclass(slots=True)
class Called:
    """One custom gradient, with the different ways in which it was called."""

    gradient: CustomGradient
    framework: Framework
    signatures: dict[str, Signature] = field(default_factory=dict)
    kept: dict[str, RecordedCall] = field(default_factory=dict)
    seen: int = 0


class Recorder:
    """Watches every framework that is imported by then; `watch` may be asked again and again."""

    def __init__(self, told: Callable[[], None] | None = None) -> None:
        self.told = told  # hears of each new way in which something was called
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
            if len(called.signatures) < self._most:
                parameters = expanded(called.gradient.parameters(), len(args))
                made = signature_of(parameters, args, kwargs, SOURCE)
                if made is not None and made.leaves:
                    self._keep(called, made, kept(parameters, args, kwargs))

        return note

    @property
    def _most(self) -> int:
        return _MOST_SIGNATURES if self.told is None else MOST_CALLS

    def _keep(self, called: Called, made: Signature, call: RecordedCall | None) -> None:
        """A signature that was not met before."""
        key = f"{made.describe()} {[leaf.shape for leaf in made.leaves]}"
        if key in called.signatures:
            return
        called.signatures[key] = made
        if self.told is not None and call is not None:
            called.kept[key] = call
            self.told()

    def calls(self) -> Calls:
        """What is kept, by the file and the name of each gradient."""
        found = [c for c in self.called.values() if c is not None and c.kept]
        return {f"{c.gradient.place.path}:{c.gradient.place.qualname}": list(c.kept.values()) for c in found}  # fmt: skip

    def _adopted(self, framework: Framework, thing: Any) -> Called | None:
        """None for a library's own."""
        gradient = gradient_of(framework, thing)
        if gradient is None or not own(gradient.place.path):
            return None
        return Called(gradient, framework)


def gradient_of(framework: Framework, thing: Any) -> CustomGradient | None:
    """What an object is to a framework, under the name of its definition: wrappers hide it."""
    gradient = _named(framework, thing, getattr(thing, "__name__", type(thing).__name__))
    if gradient is None:
        return None
    name = gradient.place.qualname.rpartition(".")[2]
    if name == gradient.name or not name.isidentifier():
        return gradient
    return _named(framework, thing, name) or gradient


def _named(framework: Framework, thing: Any, name: str) -> CustomGradient | None:
    home: Any = SimpleNamespace(**{name: thing})
    return framework.named(home, name, "", own)


def own(path: str) -> bool:
    """Is this file the user's?"""
    return bool(path) and "/site-packages/" not in path and "/gradcheck_cli/" not in path
