"""What made a custom gradient that an import alone does not make: a call, and the object whose method it was."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.discover.guesses import guesses
from gradcheck_cli.inputs.parameters import annotation
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_MOST_CALLS = 40
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Construction:
    """An object of a class, with the arguments that its constructor was given."""

    instance: object
    cls: Any
    arguments: tuple[Any, ...]


def construction(cls: Any) -> Construction | None:
    """An object of a class, if small numbers satisfy its constructor."""
    for arguments in itertools.islice(guesses(cls), _MOST_CALLS):
        try:
            with calling_user_code():
                return Construction(cls(*arguments), cls, tuple(arguments))
        except UserCodeError:
            continue
    return None


def instance_of(cls: Any) -> object | None:
    """An object of a class, if one can be made."""
    made = construction(cls)
    return None if made is None else made.instance


@dataclass(frozen=True, slots=True)
class Maker:
    """The call that made a custom gradient, and the object whose method it calls: both may be made anew."""

    function: Any
    arguments: tuple[Any, ...]
    made: Construction | None = None

    @property
    def settings(self) -> dict[str, Setting]:
        """The plain arguments of both calls, by name; those of the constructor where both have one."""
        own = _settings(self.function, self.arguments)
        return own | ({} if self.made is None else _settings(self.made.cls, self.made.arguments))

    def again(self, changed: Mapping[str, object]) -> None:
        """Make it with other settings; what is recorded meanwhile is what came of it."""
        function = self.function
        with calling_user_code():
            if self.made is not None:
                instance = _called(self.made.cls, self.made.arguments, changed)
                function = getattr(instance, function.__name__)
        with contextlib.suppress(UserCodeError):  # as before, after it was made
            with calling_user_code():
                result = _called(function, self.arguments, changed)
            call_results(result)


@dataclass(frozen=True, slots=True)
class Setting:
    """One plain argument of what made a custom gradient."""

    value: bool | int | float | str
    annotation: str | None


def _settings(function: Any, arguments: Sequence[Any]) -> dict[str, Setting]:
    given = _bound(function, arguments)
    if given is None:
        return {}
    given.apply_defaults()
    found = {}
    for name, value in given.arguments.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if type(plain) in (bool, int, float, str):
            found[name] = Setting(plain, annotation(given.signature.parameters[name]))
    return found


def _called(function: Any, arguments: Sequence[Any], changed: Mapping[str, object]) -> Any:
    given = _bound(function, arguments)
    if given is None:
        return function(*arguments)
    parameters = given.signature.parameters
    given.arguments.update({n: v for n, v in changed.items() if n in parameters})
    return function(*given.args, **given.kwargs)


def _bound(function: Any, arguments: Sequence[Any]) -> inspect.BoundArguments | None:
    try:
        return inspect.signature(function).bind_partial(*arguments)
    except (TypeError, ValueError):
        return None


def call_results(result: object, depth: int = _DEPTH) -> None:
    """Call what a call gave, where that is functions, and what these give."""
    if depth == 0:
        return
    for item in result if isinstance(result, (tuple, list)) else (result,):
        if inspect.isfunction(item):
            for arguments in itertools.islice(guesses(item), 4):
                try:
                    with calling_user_code():
                        inner = item(*arguments)
                except UserCodeError:
                    continue
                call_results(inner, depth - 1)
                break
