"""Traits of a text as a whole: how it goes along its axes, what it differentiates, whether by another derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues.casts import cast_like_others, with_quantities
from gradcheck_cli.clues.clip_bounds import cut_off_by
from gradcheck_cli.clues.constants import learned
from gradcheck_cli.clues.deviates import deviates, on_purpose, straight_through
from gradcheck_cli.clues.distinct import places_are_distinct
from gradcheck_cli.clues.empty_rows import speaks_of_empty_rows
from gradcheck_cli.clues.pieces import pieces
from gradcheck_cli.clues.siblings import single_elsewhere
from gradcheck_cli.clues.signs import speaks_beyond
from gradcheck_cli.clues.sizes import counts_axes, halves, loops, open_axes, sizes
from gradcheck_cli.clues.windows import windows
from gradcheck_cli.inputs.signature import Hints


def with_traits(
    hints: Hints,
    function: Callable[..., Any],
    rule: Sequence[Callable[..., Any]],
    names: Sequence[str],
) -> Hints:
    """The hints with what the texts of function and rule show beside their arguments."""
    both = [function, *rule]
    words, held = on_purpose(function, rule, names)
    return replace(
        hints,
        clues=with_quantities(hints.clues, both),
        sizes=sizes(function),
        windows=windows(both, names),
        halves=halves(both),
        loops=loops(both),
        pieces=pieces(both),
        counts_axes=(counts_axes(both) | open_axes(function)) & set(names),
        learned=learned(function, names),
        deviates=deviates(function, rule),
        on_purpose=words,
        held=held,
        straight_through=straight_through(function, rule),
        cast=cast_like_others(both, names),
        distinct=places_are_distinct(function),
        empty_rows=speaks_of_empty_rows(function, rule),
        single_elsewhere=single_elsewhere(function, names),
        cut_off_by=cut_off_by(function, names),
        speaks_beyond=speaks_beyond(function),
    )
