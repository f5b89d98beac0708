"""Stable library functions as a framework offers them; each is verified before it is shown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.protocol import LibraryFunction, Subject
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


def offered(
    table: Sequence[Stable],
    leaves: Sequence[Leaf],
    fit: Callable[[Stable, Signature], Subject],
    spelled: Callable[[str], Spelled | None],
) -> Iterator[LibraryFunction]:
    """Those that take these leaves, spelled for their names."""
    plain = Signature(tuple((leaf.path, leaf) for leaf in leaves))
    scalar = all(not leaf.shape for leaf in leaves)
    names = ", ".join(leaf.path for leaf in leaves)
    for stable in table:
        if stable.arrays and scalar:
            continue
        try:
            subject = fit(stable, plain)
            subject.traces()
        except (Rejected, RuleError):
            continue
        text = stable.gradient.format(x=names)
        yield LibraryFunction(
            subject, stable.value.format(x=names), text, functools.partial(spelled, text)
        )
