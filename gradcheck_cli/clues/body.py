"""Clues from the function's own text, and from its rule's: shapes, kinds and plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues.source_text import roles
from gradcheck_cli.clues.source_text.expressions import Names
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.nesting import Nesting, nestings_of
from gradcheck_cli.clues.source_text.summary import summary
from gradcheck_cli.clues.source_text.total_gradients import total_gradients
from gradcheck_cli.clues.source_text.tree import Text, definition_text, text_of
from gradcheck_cli.clues.source_text.values import Local, Value
from gradcheck_cli.clues.source_text.walk import Walk
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Parameter


def clues(
    function: Callable[..., Any],
    parameters: Sequence[Parameter],
    rule: Sequence[Callable[..., Any]] = (),
    functions: Mapping[str, Callable[..., Any]] | None = None,
    ranks: Mapping[str, int] | None = None,
) -> dict[str, Clue]:
    """What the text says of each parameter, and of each part of one: `x`, `params['w']`, `pair[0]`.

    `rule` are the functions of the rule, forward or backward, which speak of the same things;
    `functions` are what stands for parameters that are called, `ranks` how many axes other sources
    give to arrays.
    """
    facts = Facts(plain=_plain(parameters), functions=functions or {}, stated_ranks=ranks or {})
    try:
        return _clues(function, parameters, rule, facts)
    except RecursionError:  # an expression nested deeper than Python walks
        return {}


def _clues(
    function: Callable[..., Any],
    parameters: Sequence[Parameter],
    rule: Sequence[Callable[..., Any]],
    facts: Facts,
) -> dict[str, Clue]:
    names = [p.name for p in parameters]
    reading = _Reading(facts)
    primal = text_of(function)
    own = names if primal is None else [n for n in names if n in primal.parameters] or names
    if primal is not None:
        reading.keep(roles.settings(primal, names))
        gives = reading.read(primal, roles.primal_names(primal, names))
        for inner in roles.rules_inside(gives):
            _answers(reading, primal, *reading.inside(primal, inner), names, own)
    texts = [text for text in map(text_of, rule) if text is not None and text != primal]
    residuals = None
    backward = []
    for text in texts:
        if roles.is_setup(text):
            reading.read(text, roles.setup_names(text, names))
        elif roles.is_forward(text, names):
            residuals = roles.residuals_of(reading.read(text, roles.forward_names(text, names)))
        else:
            backward.append(text)
    for text in backward:
        returned = reading.read(text, roles.backward_names(text, names, residuals))
        if not roles.takes_tangents(text):
            _answers(reading, primal, text, returned, names, own)
    return summary(reading.facts, {p.name: p.default for p in parameters})


def _answers(
    reading: _Reading,
    primal: Text | None,
    text: Text,
    returned: Sequence[Value],
    names: Sequence[str],
    own: Sequence[str],
) -> None:
    """What a backward function says of the parameters by the gradients that it returns.

    A rule answers for the function's own parameters; settings of what made it, among the names, are none. What it says
    of ranks is heard only where there are no such settings.
    """
    for name in roles.without_gradient(text, own, returned):
        reading.facts.constant(name)
    for path in roles.trees(text, returned, names):
        reading.facts.tree(path)
    for path, gradient in roles.gradients(text, returned, own):
        reading.facts.answered(path, gradient)
    for path, gradient in roles.gradients(text, returned, names):
        reading.facts.returned(path, gradient)
    for name in total_gradients(text, own, primal):
        reading.facts.single(name)


def _plain(parameters: Sequence[Parameter]) -> frozenset[str]:
    """Parameters that are single numbers by their default."""
    return frozenset(p.name for p in parameters if isinstance(p.default, (int, float)))


class _Reading:
    """Texts read one after the other, with what the first keeps for those that follow."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._saved: dict[str, Value] = {}
        self._nestings: dict[str, Nesting] = {}

    def keep(self, attributes: Mapping[str, Value]) -> None:
        """What `self` or `ctx` has before anything is read."""
        self._saved |= attributes

    def read(self, text: Text, names: Names) -> Sequence[Value]:
        """Read one text; what its `return` statements give."""
        self._nestings = nestings_of(text, names, self._nestings)
        walk = Walk(text, self.facts, self._nestings, self._saved)
        with self.facts.reading(text.name):
            walk.read(names)
        return walk.returned

    def inside(self, text: Text, function: Local) -> tuple[Text, Sequence[Value]]:
        """Read a function that this text defines; its own text, and what that gives."""
        own = definition_text(function.node, text.surroundings)
        return own, self.read(own, dict(function.names) | dict.fromkeys(own.parameters))
