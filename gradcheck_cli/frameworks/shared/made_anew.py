"""Custom gradients that a factory or an object's method makes: the maker's plain arguments are theirs, too.

A loss that is made with `alpha=0.5, beta=0.5` hides a rule that takes one for the other; so it is made
again with others, as for any plain argument.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypeVar

from gradcheck_cli.clues.arms import names_behind
from gradcheck_cli.discover.makers import Maker, Setting
from gradcheck_cli.discover.outer import Origin
from gradcheck_cli.inputs.signature import Fixed, Signature
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import Found
from gradcheck_cli.subject.user_code import UserCodeError

G = TypeVar("G", bound=Any)


class Anew:
    """How a gradient is made again; `parts` are its fields that are called, `kept` others that change with it.

    `learned` settings are numbers that are handed to the rule as arguments, as an object's attribute may be:
    they are differentiated, too.
    """

    def __init__(
        self,
        settings: Mapping[str, Setting],
        make: Callable[[Mapping[str, object]], Any],
        parts: tuple[str, ...],
        kept: tuple[str, ...] = (),
        learned: frozenset[str] = frozenset(),
    ) -> None:
        self.learned = learned
        self.settings, self._make, self._parts, self._kept = settings, make, parts, kept
        self._made: dict[str, Any] = {}

    def dressed(self, gradient: G, made: Any, given: Mapping[str, object] | None = None) -> G:
        """The gradient with the functions of what was made of the `given`, which take the settings as keywords.

        They leave them be, but make themselves anew of those that are learned.
        """
        called = {part: self._taking(part, made, given or {}) for part in self._parts}
        kept = {part: getattr(made, part) for part in self._kept}
        dressed: G = replace(gradient, **called, **kept)
        return dressed

    def at(self, gradient: G, signature: Signature) -> G:
        """The gradient as it is made with the settings of this signature."""
        given = {
            name: value.value
            for name, value in signature.arguments
            if name in self.settings and isinstance(value, Fixed)
        }
        if all(_same(value, self.settings[name].value) for name, value in given.items()):
            return gradient
        if any(map(self._names_what_is_not_there, given.items())):
            raise Rejected("a table beside it names places that would not be there")
        return self.dressed(gradient, self._again(given), given)

    def _names_what_is_not_there(self, given: tuple[str, object]) -> bool:
        """Is a count smaller than that of the places which a table names?"""
        setting, value = self.settings[given[0]], given[1]
        if not (isinstance(value, int) and isinstance(setting.value, int)):
            return False
        return setting.counts_places and value < setting.value

    def _again(self, given: Mapping[str, object]) -> Any:
        key = repr(sorted(given.items()))
        if key not in self._made:
            try:
                self._made[key] = self._make(given)
            except (UserCodeError, LookupError):
                self._made[key] = None
        if self._made[key] is None:
            raise Rejected(
                f"it is not made with {', '.join(f'{n}={v!r}' for n, v in given.items())}"
            )
        return self._made[key]

    def _taking(self, part: str, made: Any, given: Mapping[str, object]) -> Callable[..., Any]:
        """The function with the settings among its keywords."""
        function: Callable[..., Any] = getattr(made, part)

        @functools.wraps(function, updated=())
        def called(*args: Any, **keywords: Any) -> Any:
            own = {name: v for name, v in keywords.items() if name not in self.settings}
            learned = {
                name: v
                for name, v in keywords.items()
                if name in self.learned and hasattr(v, "dtype")
            }
            there = getattr(self._make({**given, **learned}), part) if learned else function
            return there(*args, **own)

        called.__signature__ = _with(self.settings, self.learned, function)  # type: ignore[attr-defined]
        arrays = {n: s.array for n, s in self.settings.items() if s.array is not None}
        called.__dict__["__arrays__"] = arrays  # for the clues
        return called


def recorded_again(
    maker: Maker,
    gradient: Any,
    recording: Callable[[], AbstractContextManager[list[Found]]],
    adopt: Callable[[Found], Any],
) -> Callable[[Mapping[str, object]], Any]:
    """How a gradient that the hooks recorded is made again: what is made of the same definition, if anything is."""

    def make(given: Mapping[str, object]) -> Any:
        with recording() as recorded:
            maker.again(given)
        adopted = (adopt(each) for each in recorded)
        return next((g for g in adopted if g is not None and _alike(g, gradient)), None)

    return make


def settings_of(
    maker: Maker | Origin | None, function: Callable[..., Any] | None, own: Iterable[str]
) -> dict[str, Setting]:
    """The settings that the text of the function rests on, and that are none of its own parameters."""
    code = getattr(function, "__code__", None)
    if maker is None or code is None:
        return {}
    read = names_behind(code.co_filename, code.co_firstlineno) - set(own)
    return {n: setting for n, setting in maker.settings.items() if (setting.owner or n) in read}


def _same(one: object, other: object) -> bool:
    """Are they the same plain value? An array is none."""
    return type(one) is type(other) and one == other


def _alike(one: Any, other: Any) -> bool:
    """Are they of one definition, whatever names they go by?"""
    first, second = ((g.place.definition or g.place.qualname) for g in (one, other))
    return bool(first == second)


def _with(
    settings: Mapping[str, Setting], learned: Collection[str], function: Callable[..., Any]
) -> inspect.Signature:
    """The signature of the function with the settings as keywords."""
    try:
        own = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        own = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
    more = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if setting.guessed else setting.value,
            annotation=setting.annotation or ("float" if name in learned else inspect.Parameter.empty),
        )
        for name, setting in settings.items()
    ]  # fmt: skip
    last = [p for p in own if p.kind is p.VAR_KEYWORD]
    return inspect.Signature([*(p for p in own if p not in last), *more, *last])
