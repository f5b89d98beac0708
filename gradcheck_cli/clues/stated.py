"""What is stated of the arguments: by annotations, docstrings, calls elsewhere and names, the strongest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues import (
    complex_numbers,
    constants,
    docstrings,
    factory_options,
    quoted_words,
    usual_domains,
)
from gradcheck_cli.clues.annotations import clues as clues_of_annotations
from gradcheck_cli.clues.apart import kept_apart
from gradcheck_cli.clues.call_sizes import with_names_of
from gradcheck_cli.clues.subscripts import keys_read
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Parameter


def stated(
    function: Callable[..., Any],
    parameters: Sequence[Parameter],
    called: Mapping[str, Clue],
) -> dict[str, list[Clue]]:
    """All clues of each argument, and of what it holds; `called` are those of calls elsewhere."""
    names = [p.name for p in parameters]
    sources = [
        _of_maker(function),
        clues_of_annotations(function, parameters),
        docstrings.clues(function, names),
    ]
    keys = {name: read for name, read in keys_read(function).items() if name in names}
    sources.append(docstrings.clues_of_keys(function, keys))
    calls = with_names_of(called, [of for source in sources for of in source.items()])
    usual = usual_domains.clues(usual_domains.named(function), names)
    sources += [{name: [clue] for name, clue in each.items()} for each in (calls, usual)]
    sources.append({n: [clue] for n, clue in factory_options.clues(function, parameters).items()})
    sources.append({n: [clue] for n, clue in quoted_words.clues(function, parameters).items()})
    sources.append(constants.clues(function, names))
    sources.append(complex_numbers.clues(function, parameters))
    paths = dict.fromkeys((*names, *(path for source in sources for path in source)))
    merged = {path: [c for source in sources for c in source.get(path, ())] for path in paths}
    told = {
        path: [c for c in clues if not _names_keys(c, keys.get(path, ()))]
        for path, clues in merged.items()
    }
    return kept_apart({path: clues for path, clues in told.items() if clues}, parameters)


def _names_keys(clue: Clue, keys: Sequence[str]) -> bool:
    """Are the words that a text lists those of the dictionary's keys, and none of its own: `params "w" and "b"`?"""
    return clue.kind is Kind.WORD and bool(clue.values) and set(clue.values) <= set(keys)


def _of_maker(function: Callable[..., Any]) -> dict[str, list[Clue]]:
    """Arrays for what may be left out when the function's object is made, as its class says."""
    arrays: Mapping[str, Any] = getattr(function, "__arrays__", {})
    kinds = {"b": Kind.BOOLS, "i": Kind.INTEGERS}
    return {
        name: [
            Clue(
                "what the text of its class says",
                values=(array,),
                kind=kinds.get(array.dtype.kind, Kind.ARRAY),
            )
        ]
        for name, array in arrays.items()
    }
