"""Stable library functions as a framework offers them; each is verified before it is shown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gradcheck_cli.inputs.signature import Leaf, Parameter, Signature
from gradcheck_cli.subject.protocol import CustomGradient, LibraryFunction
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.results import Spelled


@dataclass(frozen=True, slots=True)
class Stable:
    """`value` and `gradient` are templates: {x} the arguments, ct the cotangent."""

    function: Callable[..., Any]
    value: str
    gradient: str
    arrays: bool = False  # of a single number it would be something trivial


@dataclass(frozen=True, slots=True)
class Library:
    """A framework's stable functions, and the names that their text refers to."""

    table: tuple[Stable, ...]
    scope: dict[str, Any]

    def written(self, names: Sequence[str], text: str) -> Callable[..., Any]:
        """A derivative given as text: a function of these arguments and `ct`."""
        function: Callable[..., Any] = eval(  # noqa: S307
            f"lambda {', '.join(names)}, ct: ({text},)", dict(self.scope)
        )
        return function


class Offering(Protocol):
    """A gradient whose framework offers stable functions in its place."""

    @property
    def library(self) -> Library: ...
    def parameters(self) -> Sequence[Parameter]: ...
    def stand_in(self, stable: Stable) -> CustomGradient: ...


def offered(
    gradient: Offering,
    leaves: Sequence[Leaf],
    dtype: str,
    spelled: Callable[[str], Spelled | None],
) -> Iterator[LibraryFunction]:
    """Library functions that take these leaves, spelled for their names."""
    plain = Signature(tuple((leaf.path, leaf) for leaf in leaves))
    scalar = all(not leaf.shape for leaf in leaves)
    names = ", ".join(leaf.path for leaf in leaves)
    for stable in gradient.library.table:
        if stable.arrays and scalar:
            continue
        try:
            subject = gradient.stand_in(stable).fit(plain, dtype)
            subject.traces()
        except (Rejected, RuleError):
            continue
        text = stable.gradient.format(x=names)
        yield LibraryFunction(
            subject,
            stable.value.format(x=names),
            text,
            functools.partial(spelled, text),
            gradient.library.scope,
        )
