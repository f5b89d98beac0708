"""Calls: every reader of calls is asked, and the first that follows the result gives it."""

from __future__ import annotations

from gradcheck_cli.clues.source_text import (
    arithmetic,
    axes,
    computed,
    einsums,
    operations,
    shapes,
    sizes,
)
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.values import Call, Part, Value
from gradcheck_cli.inputs.clue import Kind

_READERS = (shapes.call, einsums.call, axes.call, operations.call, sizes.call)
_ASKING = ("isinstance", "callable", "hasattr", "getattr", "issubclass", "type")
_NUMBERS = ("float", "int", "round")


def called(made: Call, facts: Facts) -> Value:
    """What a call gives, where that can be followed."""
    if not made.library and made.name in _ASKING:
        facts.asked(made.argument(0))
    if not made.library and made.name in _NUMBERS and not made.method:
        facts.kind(made.argument(0), Kind.NUMBER)
        if made.name == "float" and isinstance(made.argument(0), Part):
            return made.argument(0)  # the number that it was
    if made.library == "math":
        for operand in made.operands:
            facts.kind(operand, Kind.NUMBER)
    if made.library == "typing":
        return None
    results = [reader(made, facts) for reader in _READERS]
    others = (shapes.fresh(made), computed.call(made), arithmetic.call(made, facts.plain))
    return next((r for r in (*results, *others) if r is not None), None)
