"""What made a custom gradient that an import alone does not make: a call, and the object whose method it was."""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcheck_cli.discover import written_calls
from gradcheck_cli.discover.guesses import documented, guesses
from gradcheck_cli.discover.settings_objects import flags, with_settings, words
from gradcheck_cli.discover.written_values import Scope, UnreadableError
from gradcheck_cli.inputs.parameters import annotation
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_MOST_CALLS = 40
_EXAMPLES = doctest.DocTestParser()
_DEPTH = 2
_MOST_SIZES = 4  # in one tuple
# `n_stations`, `numNodes`, `ngroups`: how many there are of something.
_COUNTS = re.compile(r"^(?:n|num|number|count)(?:_|[A-Z]|$)|^n[a-z]+$|_(?:count|size)s?$")


@dataclass(frozen=True, slots=True)
class Setting:
    """One plain argument of what made a custom gradient, or a row of real numbers."""

    value: bool | int | float | str | tuple[float, ...] | None
    annotation: str | None
    guessed: bool = False  # nobody but cgcheck chose it
    # What a text says of it where it is left out: an array of such a shape.
    array: Any = field(default=None, compare=False)
    owner: str = ""  # the argument of which it is a flag or a word: `rules` of `rules.squared`
    counts_places: bool = False  # of which a table beside it names as many


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a factory or a constructor, which may be made again with other plain arguments."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    guessed: bool = False

    @property
    def settings(self) -> dict[str, Setting]:
        """The plain arguments, those that are left to their defaults as well, and the flags of objects among them."""
        given = self._bound()
        if given is None:
            return {}
        chosen = frozenset(given.arguments) if self.guessed else frozenset()
        nothing_given = all(v is None for v in (*self.arguments, *self.keywords.values()))
        arrays = documented(self.function) if self.guessed or nothing_given else {}
        given.apply_defaults()
        found = {}
        named = _places_named(given)
        for name, value in given.arguments.items():
            plain = value.item() if isinstance(value, np.generic) else _row(value)
            if type(plain) is int and plain == named and _COUNTS.search(name):
                continue  # with fewer, the table beside it would name places that are not there
            if plain is None or type(plain) in (bool, int, float, str, tuple):
                hint = annotation(given.signature.parameters[name])
                found[name] = Setting(plain, hint, name in chosen, arrays.get(name))
        return _of_objects(given, _source(self.function)) | found

    @property
    def places_named(self) -> int:
        """How many places the tables of integers among the arguments name; 0 if there are none."""
        given = self._bound()
        return 0 if given is None else _places_named(given) or 0

    def again(self, changed: Mapping[str, object]) -> Any:
        """What the call gives with other settings."""
        given = self._bound()
        with calling_user_code():
            if given is None:
                return self.function(*self.arguments, **self.keywords)
            parameters = given.signature.parameters
            settings = self.settings if changed else {}
            owners = {n: s.owner for n, s in settings.items() if s.owner and n in changed}
            given.arguments.update({n: v for n, v in changed.items() if n in parameters})
            if owners:
                given.apply_defaults()
            for flag, owner in owners.items():
                given.arguments[owner] = with_settings(
                    given.arguments[owner], {flag: changed[flag]}
                )
            return self.function(*given.args, **given.kwargs)

    def _bound(self) -> inspect.BoundArguments | None:
        try:
            return inspect.signature(self.function).bind_partial(*self.arguments, **self.keywords)
        except (TypeError, ValueError):
            return None


def _lists_integers(value: object) -> bool:
    """Is it a list of whole numbers, as `[0, 0, 1]`? A short tuple may be sizes, such as strides."""
    if not isinstance(value, list | tuple) or not value:
        return False
    is_table = isinstance(value, list) or len(value) > _MOST_SIZES
    return is_table and all(type(each) is int for each in value)


def _places_named(given: inspect.BoundArguments) -> int | None:
    """How many places the tables of integers among the arguments name; None if there are none."""
    values = list(given.arguments.values())
    kinds = ((v, getattr(getattr(v, "dtype", None), "kind", "")) for v in values)
    tables = [np.asarray(value) for value, kind in kinds if kind in ("i", "u")]
    tables = tables or [np.array(v) for v in values if _lists_integers(v)]  # which may be sizes
    most = max((int(table.max()) for table in tables if table.size), default=-1)
    return most + 1 if most >= 0 else None


def _of_objects(given: inspect.BoundArguments, text: str) -> dict[str, Setting]:
    """The flags and words of objects among the arguments that the text reads, `rules.squared`, but those that change what is meant."""
    found: dict[str, list[Setting]] = {}
    for owner, value in given.arguments.items():
        held = [(flag, Setting(on, "bool", owner=owner)) for flag, on in flags(value)]
        held += [
            (name, Setting(word, f"Literal{[word, *others]!r}", owner=owner))
            for name, word, others in words(value)
            if others
        ]
        for name, setting in held:
            is_read = re.search(rf"\.{name}\b", text) is not None
            if is_read and name not in given.signature.parameters:
                found.setdefault(name, []).append(setting)
    return {name: of_one[0] for name, of_one in found.items() if len(of_one) == 1}


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def _row(value: Any) -> Any:
    """A list of real numbers as a tuple; whatever else it is, as it is. Another tuple is no plain value."""
    numbers = isinstance(value, list | tuple) and bool(value)
    if numbers and all(type(number) is float for number in value):
        return tuple(value)
    return ... if isinstance(value, tuple) else value


def calls_of(function: Any, functions: Sequence[Callable[..., Any]] = ()) -> Iterator[Call]:
    """Calls of a factory or a class: as its own file makes them, then with guessed arguments."""
    yield from _as_written(function)
    guessed = guesses(function, functions) if functions else guesses(function)
    for arguments in itertools.islice(guessed, _MOST_CALLS):
        yield Call(function, tuple(arguments), guessed=True)


def _as_written(function: Any) -> Iterator[Call]:
    """Calls in the file that defines it, with what can be read of their arguments without running a function of it."""
    home = inspect.getmodule(function)
    name = getattr(function, "__name__", "")
    if home is None or getattr(home, name, None) is not function:
        return
    tree = written_calls.tree_of(home)
    if tree is None:
        return
    for node, around in itertools.chain(
        written_calls.calls_of(tree, name), _in_examples(tree, name)
    ):
        with contextlib.suppress(UnreadableError, UserCodeError):
            yield _read(node, function, Scope(home, around))


def _in_examples(tree: ast.AST, name: str) -> Iterator[tuple[ast.Call, written_calls.Around]]:
    """Calls of this name in the examples of docstrings: `>>> arm = Arm([0.3, 0.25], "RR")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            with contextlib.suppress(SyntaxError, ValueError):  # an example may be none of Python's
                for example in _EXAMPLES.get_examples(ast.get_docstring(node) or ""):
                    yield from written_calls.calls_of(ast.parse(example.source), name)


def _read(call: ast.Call, function: Any, scope: Scope) -> Call:
    arguments = tuple(scope.value(argument) for argument in call.args)
    keywords = {k.arg: scope.value(k.value) for k in call.keywords if k.arg is not None}
    return Call(function, arguments, keywords)


@dataclass(frozen=True, slots=True)
class Construction:
    """An object of a class, and the call that made it."""

    instance: object
    call: Call


def construction(cls: Any) -> Construction | None:
    """An object of a class, if its own file's arguments or small numbers satisfy its constructor."""
    for call in calls_of(cls):
        with contextlib.suppress(UserCodeError):
            return Construction(call.again({}), call)
    return None


def objects_of(cls: Any) -> Iterator[object]:
    """Objects of a class, as its own file makes them, then with guessed arguments."""
    for call in calls_of(cls):
        with contextlib.suppress(UserCodeError):
            yield call.again({})


def instance_of(cls: Any) -> object | None:
    """An object of a class, if one can be made."""
    made = construction(cls)
    return None if made is None else made.instance


@dataclass(frozen=True, slots=True)
class Maker:
    """The call that made a custom gradient, and the object whose method it calls: both may be made anew."""

    call: Call
    made: Construction | None = None

    @property
    def settings(self) -> dict[str, Setting]:
        """The plain arguments of both calls, by name; those of the constructor where both have one.

        What counts the places that a table of the call names is no smaller anywhere else.
        """
        own = {} if self.made is None else self.made.call.settings
        named = self.call.places_named
        counts = {
            n: replace(s, counts_places=True)
            for n, s in own.items()
            if named and s.value == named and _COUNTS.search(n)
        }
        return self.call.settings | own | counts

    def again(self, changed: Mapping[str, object]) -> None:
        """Make it with other settings; what is recorded meanwhile is what came of it."""
        call = self.call
        if self.made is not None:
            instance = self.made.call.again(changed)
            call = replace(call, function=getattr(instance, call.function.__name__))
        with contextlib.suppress(UserCodeError):  # as before, after it was made
            call_results(call.again(changed))


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
