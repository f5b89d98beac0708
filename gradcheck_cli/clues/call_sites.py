"""Call sites: what calls elsewhere in the file and in the project say of a function's arguments.

The expressions that make the arguments are interpreted to shape, kind and domain, never executed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gradcheck_cli.clues.call_sizes import read_arguments
from gradcheck_cli.clues.interpreted.run import SeenCall, made_by
from gradcheck_cli.clues.interpreted.seen import made_dictionaries, seen_calls
from gradcheck_cli.clues.interpreted.values import Array, Value
from gradcheck_cli.clues.never_learned import never_learned
from gradcheck_cli.clues.subscripts import keys_read
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Parameter, root
from gradcheck_cli.project.users import root_of
from gradcheck_cli.subject.protocol import CustomGradient

_LONGEST = 60


def calls_of(gradient: CustomGradient) -> dict[str, Clue]:
    """What calls in its file and its project say of the parameters of a gradient, or those of another that its definition made."""
    path = Path(gradient.place.path)
    if not path.is_file():
        return {}
    path = path.resolve()
    names = (gradient.place.qualname, *gradient.place.siblings)
    told = (clues(path, root_of(path), [name], gradient.parameters()) for name in names)
    called = next(filter(None, told), {})
    return {**_of_dictionaries(path, gradient, called), **called}


def _of_dictionaries(
    path: Path, gradient: CustomGradient, called: Mapping[str, Clue]
) -> dict[str, Clue]:
    """For what the rule reads by keys, the arrays of a dictionary with these keys that a function of the file makes."""
    read: dict[str, set[str]] = {}
    for function in gradient.rule_code():
        for name, keys in keys_read(function).items():
            read.setdefault(name, set()).update(keys)
    known = {root(other) for other in called}
    asked = [
        p.name
        for p in gradient.parameters()
        if p.name not in known and len(read.get(p.name, ())) > 1
    ]
    made = made_dictionaries(path, root_of(path)) if asked else ()
    found: dict[str, Clue] = {}
    for name in asked:
        fitting = next((each for each in made if read[name] <= set(each.value)), None)
        if fitting is not None:
            source = f"what `{fitting.maker}` gives back"
            found |= read_arguments({name: fitting.value}, source, {name})
    return found


def clues(
    path: Path, root: Path, names: Sequence[str], parameters: Sequence[Parameter]
) -> dict[str, Clue]:
    """What the richest call of a gradient says of its parameters, and the plain values of all calls.

    `names` are those by which the file knows it: `relu`, `Layer.apply`. Of nested arguments there is a
    clue for each array, as in `params['w']`.
    """
    parameters = [p for p in parameters if not p.variadic]
    calls = [call for call in seen_calls(path, root) if call.name in names]
    bound = [(call, _by_name(call, parameters)) for call in calls]
    useful = [(call, values) for call, values in bound if _richness(values) > (0, 0, 0)]
    if not useful:
        return {}
    call, values = max(useful, key=lambda pair: _richness(pair[1]))
    differentiable = {p.name for p in parameters if p.differentiable}
    defaults = [p.default for p in parameters if p.name not in values]
    chosen = read_arguments(values, _source(call, path, root), differentiable, defaults)
    for other, more in useful:
        for name, clue in read_arguments(more, _source(other, path, root), differentiable).items():
            if name in chosen:
                chosen[name] = _with_values(chosen[name], clue)
    for name in never_learned(calls, [p.name for p in parameters]):
        known = chosen.get(name, Clue(_source(call, path, root)))
        chosen[name] = replace(known, constant=True)
    return chosen


def clues_of_fields(path: Path, root: Path, qualname: str) -> dict[str, Clue]:
    """What the richest object of a class that the file makes says of the class's fields."""
    made = [call for call in seen_calls(path, root) if call.name == made_by(qualname)]
    useful = [call for call in made if _richness(call.kwargs) > (0, 0, 0)]
    if not useful:
        return {}
    call = max(useful, key=lambda call: _richness(call.kwargs))
    return read_arguments(call.kwargs, _source(call, path, root), set(call.kwargs))


def _by_name(call: SeenCall, parameters: Sequence[Parameter]) -> dict[str, Value]:
    """The arguments by the names of the parameters; nothing for a call of something else."""
    own = [p.name for p in parameters]
    placed = [p.name for p in parameters if not p.keyword_only]
    names = placed if call.parameters is None else call.parameters
    if call.parameters is not None and not set(placed) <= set(names):
        return {}
    values = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if len(call.args) > len(names) or (
        call.parameters is None and not set(call.kwargs) <= set(own)
    ):
        return {}
    return {name: values[name] for name in own if name in values}


def _richness(values: Mapping[str, Value]) -> tuple[int, int, int]:
    """How much a call says: arguments that are known, then axes, then sizes that differ."""
    known = [v for v in values.values() if not _is_unknown(v)]
    arrays = [v for v in known if isinstance(v, Array)]
    whole = [a for a in arrays if None not in a.shape]
    sizes = {d for a in whole for d in a.shape if d != 1}
    return len(known), sum(len(a.shape) for a in whole), len(sizes)


def _is_unknown(value: Value) -> bool:
    return not read_arguments({"x": value}, "", set())


def _with_values(clue: Clue, other: Clue) -> Clue:
    """The clue with the plain values of another call, too."""
    if not clue.values or clue.kind is not other.kind:
        return clue
    more = [v for v in other.values if not any(v == w and type(v) is type(w) for w in clue.values)]
    return replace(clue, values=(*clue.values, *more))


def _source(call: SeenCall, path: Path, root: Path) -> str:
    """Where the call stands, as a report names it."""
    text = ast.unparse(call.node)
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    where = call.module.path
    if where == path:
        return f"the call `{text}` in line {call.node.lineno}"
    shown = where.relative_to(root).as_posix() if where.is_relative_to(root) else where.name
    return f"the call `{text}` in {shown}:{call.node.lineno}"
