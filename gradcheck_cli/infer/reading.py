"""Hints from a function's own text: the shapes, keys and classes that it states for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.infer.annotations import annotated
from gradcheck_cli.infer.classes import classes, instances
from gradcheck_cli.infer.docstrings import documented
from gradcheck_cli.infer.subscripts import keys_read, unpacked
from gradcheck_cli.infer.surroundings import sizes
from gradcheck_cli.inputs.signature import Hints, Parameter
from gradcheck_cli.project.input_specs import Spec, SpecError, parse


def read(
    function: Callable[..., Any],
    parameters: Sequence[Parameter],
    functions: Sequence[tuple[str, Any]],
    make_key: Callable[[], Any] | None = None,
) -> Hints:
    """Annotations before docstrings; keys, unpackings and the arrays around it from the source."""
    names = [p.name for p in parameters]
    stated = {name: (spec, "its annotation") for name, spec in annotated(parameters).items()}
    for name, spec in documented(function, names).items():
        stated.setdefault(name, (spec, "the docstring"))
    wanted = {name: cls for name, cls in classes(function).items() if name in names}
    return Hints(
        keys=keys_read(function),
        unpacked=unpacked(function),
        sizes=sizes(function),
        functions=list(functions),
        make_key=make_key,
        guesses=_parsed({name: stated[name] for name in names if name in stated}),
        classes=wanted,
        instances=instances(function, wanted),
    )


def _parsed(stated: dict[str, tuple[str, str]]) -> dict[str, tuple[Spec, str]]:
    """The specs, parsed in one so that dimensions of one name are equal."""
    try:
        specs = parse(", ".join(f"{name}={spec}" for name, (spec, _) in stated.items()))
    except SpecError:
        return {}
    return {name: (specs[name], f"{source} `{text}`") for name, (text, source) in stated.items()}
