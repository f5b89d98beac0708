"""Which custom gradients a program calls, and how: by watching the frameworks while it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gradcheck_cli.frameworks.load import load
from gradcheck_cli.infer.calls import by_name, signature_of
from gradcheck_cli.infer.recalled import SOURCE
from gradcheck_cli.inputs.parameters import expanded
from gradcheck_cli.inputs.signature import Fixed, Signature
from gradcheck_cli.project.framework_marks import WATCHED
from gradcheck_cli.subject.protocol import CustomGradient, Framework

_MOST_CALLS = 64  # of one gradient that are looked at


@dataclass(slots=True)
class Called:
    """One custom gradient of the user, with the different ways in which it was called."""

    gradient: CustomGradient
    framework: Framework
    signatures: dict[str, Signature] = field(default_factory=dict)
    calls: int = 0


Listener = Callable[[CustomGradient, Mapping[str, Any]], None]


class Recorder:
    """Watches every framework that is imported by then; `watch` may be asked again and again.

    Of each gradient it keeps so many signatures, of each choice of its options `of_options` at most;
    `listener` hears of each that is kept, with the arguments by name.
    """

    def __init__(
        self,
        signatures: int,
        listener: Listener = lambda gradient, arguments: None,
        of_options: int | None = None,
    ) -> None:
        self.signatures = signatures
        self.of_options = signatures if of_options is None else of_options
        self.listener = listener
        self.called: dict[int, Called | None] = {}
        self._alive: list[object] = []  # so that an identity stays one object's
        self._watched: set[str] = set()
        self._stack = ExitStack()

    def watch(self) -> None:
        for name in WATCHED:
            if name not in sys.modules or name in self._watched:
                continue
            # TensorFlow imports JAX on its way: it is asked again when it is there as a whole.
            with suppress(ImportError, AttributeError):
                framework = load(name)
                self._watched.add(name)
                self._stack.enter_context(framework.watching(self._noting(framework)))

    def stop(self) -> list[Called]:
        """What was called, in the order of first calls."""
        self._stack.close()
        return [c for c in self.called.values() if c is not None]

    def _noting(self, framework: Framework) -> Any:
        def note(thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if id(thing) not in self.called:
                self._alive.append(thing)
                self.called[id(thing)] = self._adopted(framework, thing)
            called = self.called[id(thing)]
            if called is None or called.calls >= _MOST_CALLS:
                return
            called.calls += 1
            if len(called.signatures) < self.signatures:
                self._keep(called, args, kwargs)

        return note

    def _keep(self, called: Called, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The signature of a call, unless it has no arrays or was met before."""
        parameters = expanded(called.gradient.parameters(), len(args))
        arguments = by_name(parameters, args, kwargs)
        signature = signature_of(parameters, args, kwargs, SOURCE)
        if arguments is None or signature is None or not signature.leaves:
            return
        key = f"{signature.describe()} {[leaf.shape for leaf in signature.leaves]}"
        alike = [s for s in called.signatures.values() if _options(s) == _options(signature)]
        if key not in called.signatures and len(alike) < self.of_options:
            called.signatures[key] = signature
            self.listener(called.gradient, arguments)

    def _adopted(self, framework: Framework, thing: Any) -> Called | None:
        """None for a library's own."""
        gradient = gradient_of(framework, thing)
        if gradient is None or not own(gradient.place.path):
            return None
        return Called(gradient, framework)


def _options(signature: Signature) -> list[tuple[str, str]]:
    """Words, flags and whole numbers of a call: what chooses among branches."""
    fixed = ((name, v) for name, v in signature.arguments if isinstance(v, Fixed))
    return [(name, v.text) for name, v in fixed if isinstance(v.value, str | int)]


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
