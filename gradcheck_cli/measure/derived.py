"""A fact that is derived from measurements is computed once for each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from gradcheck_cli.measure.measurements import Measurements

P = ParamSpec("P")
T = TypeVar("T")


def derived(
    fact: Callable[Concatenate[Measurements, P], T],
) -> Callable[Concatenate[Measurements, P], T]:
    """The function with a memory of its own, which lives as long as the measurements do."""
    answers: WeakKeyDictionary[Measurements, dict[tuple[object, ...], T]] = WeakKeyDictionary()

    def once(m: Measurements, /, *args: P.args, **kwargs: P.kwargs) -> T:
        own = answers.setdefault(m, {})
        key = (*args, *kwargs.items())
        if key not in own:
            own[key] = fact(m, *args, **kwargs)
        return own[key]

    functools.update_wrapper(once, fact)
    return once
