"""Roles of functions: which of a rule's parameters are those of the function that it differentiates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.clues.source_text.expressions import Names
from gradcheck_cli.clues.source_text.tree import Text, names_of
from gradcheck_cli.clues.source_text.values import (
    Constant,
    Context,
    Keyed,
    Local,
    Many,
    Part,
    Value,
)

_FORWARD, _BACKWARD = ("fwd", "forward"), ("bwd", "backward", "vjp", "grad")


def primal_names(text: Text, names: Sequence[str]) -> Names:
    """The function's own parameters; what comes before them (`ctx`, `self`) is kept for the rule."""
    own: Names = {n: Part(n) if n in names else Context() for n in text.parameters}
    return {n: Part(n) for n in names} | own  # what a factory was given goes by its name, too


def settings(text: Text, names: Sequence[str]) -> Names:
    """The parameters that the object of a method holds: `self.heads` of a layer that is made with `heads`."""
    if text.parameters[:1] != ("self",):
        return {}
    return {n: Part(n) for n in names if n not in text.parameters}


def is_forward(text: Text, names: Sequence[str]) -> bool:
    """Does the function take what the primal takes?"""
    if len(text.parameters) != len(names) or any(b in text.name for b in _BACKWARD):
        return False
    same = [one == other for one, other in zip(text.parameters, names, strict=True)]
    moved = any(n in names for n, is_same in zip(text.parameters, same, strict=True) if not is_same)
    return not moved and (sum(same) * 2 > len(same) or any(f in text.name for f in _FORWARD))


def forward_names(text: Text, names: Sequence[str]) -> Names:
    """The primal's parameters in their order, whatever they are called here."""
    return {own: Part(name) for own, name in zip(text.parameters, names, strict=True)}


def is_setup(text: Text) -> bool:
    """torch's `setup_context(ctx, inputs, output)`."""
    return text.name == "setup_context" and len(text.parameters) == 3


def setup_names(text: Text, names: Sequence[str]) -> Names:
    """The context, and the primal's arguments in one tuple."""
    context, inputs, output = text.parameters
    return {context: Context(), inputs: Many(tuple(Part(n) for n in names)), output: None}


def takes_tangents(text: Text) -> bool:
    """JAX's `f_jvp(primals, tangents)`? It returns a value and its tangent, and no gradients."""
    own = text.parameters
    if len(own) < 2 or any(b in text.name for b in _BACKWARD[:-1]):
        return False
    return "jvp" in text.name or "tangent" in own[-1] or "primals" in own[-2]


def backward_names(text: Text, names: Sequence[str], residuals: Value) -> Names:
    """What is not differentiated has the primal's name; before the cotangent come the residuals."""
    own = text.parameters
    found: Names = {name: Part(name) if name in names else None for name in own}
    if own and own[0] not in names:
        found[own[0]] = Context()
    if len(own) >= 2:
        before = own[:-2]
        rest = [name for name in names if name not in before]
        if takes_tangents(text) and all(name in names for name in before):
            found[own[-2]] = Many(tuple(Part(name) for name in rest))
        elif residuals is not None:
            found[own[-2]] = residuals
        found[own[-1]] = None
    return found


def gradients(
    text: Text, returned: Sequence[Value], names: Sequence[str]
) -> list[tuple[str, Value]]:
    """Each parameter with its gradient, where every `return` of a backward function gives one for each.

    What returns a value and the rule for it is no backward function.
    """
    several = [r.items if isinstance(r, Many) else (r,) for r in returned]
    if any(isinstance(item, Local) for items in several for item in items):
        return []
    rest = [name for name in names if name not in text.parameters[:-2]]
    for wanted in (names, rest) if several else ():
        if all(len(items) == len(wanted) for items in several):
            return [
                each
                for name, *items in zip(wanted, *several, strict=True)
                if all(item == items[0] for item in items)
                for each in _parts(name, items[0])
            ]
    return []


def trees(text: Text, returned: Sequence[Value], names: Sequence[str]) -> Iterator[str]:
    """The parameters that hold several arrays, and these: a backward function returns a tuple or a dictionary for each of them."""
    if "variables" in text.parameters:  # with these, it returns two tuples
        return
    for path, _ in gradients(text, returned, names):
        whole = path.partition("[")[0]
        if whole != path:
            yield path
            yield whole


def _parts(path: str, gradient: Value) -> list[tuple[str, Value]]:
    """The gradient, or those of what a dictionary or a tuple holds."""
    if isinstance(gradient, Keyed):
        return [each for key, part in gradient.items for each in _parts(f"{path}[{key!r}]", part)]
    if isinstance(gradient, Many):
        return [each for i, p in enumerate(gradient.items) for each in _parts(f"{path}[{i}]", p)]
    return [(path, gradient)]


def residuals_of(returned: Sequence[Value]) -> Value:
    """The second of the two things that every `return` of a forward function gives."""
    pairs = [r.items if isinstance(r, Many) else () for r in returned]
    if not pairs or any(len(items) != 2 for items in pairs):
        return None
    seconds = {items[1] for items in pairs}
    return seconds.pop() if len(seconds) == 1 else None


def rules_inside(returned: Sequence[Value]) -> Iterator[Local]:
    """The backward function that each `return` gives beside the value, as TensorFlow and Keras have it.

    One that is asked for the gradients of variables, too, returns two tuples.
    """
    for pair in returned:
        second = pair.items[1] if isinstance(pair, Many) and len(pair.items) == 2 else None
        if isinstance(second, Local) and "variables" not in names_of(second.node.args):
            yield second


def without_gradient(text: Text, names: Sequence[str], returned: Sequence[Value]) -> Iterator[str]:
    """The parameters for which every `return` of a backward function gives None."""
    rows = [r.items if isinstance(r, Many) else () for r in returned]
    rest = [name for name in names if name not in text.parameters[:-2]]
    for wanted in (list(names), rest):
        if rows and all(len(row) == len(wanted) for row in rows):
            for place, name in enumerate(wanted):
                if all(row[place] == Constant(None) for row in rows):
                    yield name
            return
