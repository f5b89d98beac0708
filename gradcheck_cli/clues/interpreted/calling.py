"""Calls interpreted: of the project's functions and classes, of libraries, and of what wraps them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from gradcheck_cli.clues.interpreted import layers, library, methods
from gradcheck_cli.clues.interpreted.expressions import elements, evaluate, member
from gradcheck_cli.clues.interpreted.run import MOST_DEPTH, REST, MadeDictionary, Run, made_by
from gradcheck_cli.clues.interpreted.statements import outcome
from gradcheck_cli.clues.interpreted.values import (
    A_FLOAT,
    UNKNOWN,
    Alias,
    Applied,
    Array,
    Bound,
    Class,
    Definition,
    Instance,
    Layer,
    Library,
    Method,
    Scope,
    Transformed,
    Value,
)

Args = Sequence[Value]
Kwargs = Mapping[str, Value]

_TRANSPARENT = frozenset(
    {"jit", "checkpoint", "remat", "function", "custom_vjp", "custom_jvp", "compile", "named_call"}
    | {"closure_convert", "shape_poly"}
)
_LATER = frozenset({"grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian", "make_jaxpr"})  # fmt: skip
_AT_ONCE = frozenset({"vjp", "linearize", "eval_shape"})
_CHECKED = {"check_grads": 1, "gradcheck": 1, "gradgradcheck": 1, "jvp": 1, "check_vjp": 2, "check_jvp": 2}  # fmt: skip


def invoke(run: Run, callee: Value, args: Args, kwargs: Kwargs) -> Value:
    """What a call gives; calls of what the home file defines are noted."""
    run.steps += 1
    rule = _RULES.get(type(callee))
    if rule is None or run.depth > MOST_DEPTH or run.is_over:
        return UNKNOWN
    run.depth += 1
    out = rule(run, callee, args, kwargs)
    run.depth -= 1
    return out


def _definition(run: Run, callee: Definition, args: Args, kwargs: Kwargs) -> Value:
    _record(run, callee, callee.parameters, args, kwargs)
    return _entered(run, callee, args, kwargs)


def _record(
    run: Run, callee: Definition, parameters: Sequence[str], args: Args, kwargs: Kwargs
) -> None:
    """Note the call of a function of the home file."""
    if callee.scope.module.is_home and not isinstance(callee.node, ast.Lambda):
        run.record(callee.qualname, _placed(callee, parameters), args, kwargs)


def _placed(callee: Definition, parameters: Sequence[str]) -> Sequence[str] | None:
    return None if callee.node.args.vararg else parameters


def _entered(run: Run, callee: Definition, args: Args, kwargs: Kwargs) -> Value:
    """The body of a function, with its parameters bound."""
    run.entered.add(callee.node)
    scope = Scope(callee.scope.module, f"{callee.qualname}.<locals>.", callee.scope)
    _bind(callee, args, kwargs, scope)
    if isinstance(callee.node, ast.Lambda):
        return evaluate(callee.node.body, scope, run)
    out = outcome(callee.node.body, scope, run)
    if isinstance(out, dict) and callee.scope.module.is_home:
        run.made.append(MadeDictionary(callee.qualname, out))
    if "custom_gradient" in callee.traits:  # it returns a value and a rule
        return out[0] if isinstance(out, tuple) and len(out) == 2 else UNKNOWN
    return UNKNOWN if "opaque" in callee.traits else out


def _bind(callee: Definition, args: Args, kwargs: Kwargs, scope: Scope) -> None:
    arguments = callee.node.args
    names = callee.parameters
    known = list(args[: args.index(REST)]) if REST in args else list(args)
    values = dict(zip(names, known, strict=False))
    others = [a.arg for a in arguments.kwonlyargs]
    for name in (*names, *others):
        left_out = UNKNOWN if REST in args else callee.defaults.get(name, UNKNOWN)
        scope.names[name] = values.get(name, kwargs.get(name, left_out))
    if arguments.vararg is not None:
        rest = tuple(known[len(names) :])
        scope.names[arguments.vararg.arg] = UNKNOWN if REST in args else rest
    if arguments.kwarg is not None:
        rest_of = {k: v for k, v in kwargs.items() if k not in (*names, *others)}
        scope.names[arguments.kwarg.arg] = UNKNOWN if REST in args else rest_of


def _bound(run: Run, callee: Bound, args: Args, kwargs: Kwargs) -> Value:
    _record(run, callee.function, callee.function.parameters[1:], args, kwargs)
    return _entered(run, callee.function, [callee.owner, *args], kwargs)


def _applied(run: Run, callee: Applied, args: Args, kwargs: Kwargs) -> Value:
    """`apply` of a torch Function: its `forward`, with a context before the arguments, or without."""
    forward = callee.cls.member("forward")
    if not isinstance(forward, Definition):
        return UNKNOWN
    split = callee.cls.member("setup_context") is not UNKNOWN
    if forward.scope.module.is_home:
        parameters = forward.parameters if split else forward.parameters[1:]
        run.record(callee.cls.qualname, _placed(forward, parameters), args, kwargs)
    return _entered(run, forward, args if split else [UNKNOWN, *args], kwargs)


def _alias(run: Run, callee: Alias, args: Args, kwargs: Kwargs) -> Value:
    inner = callee.value
    parameters = inner.parameters if isinstance(inner, Definition) else None
    run.record(callee.name, parameters, args, kwargs)
    return invoke(run, inner, args, kwargs)


def _class(run: Run, callee: Class, args: Args, kwargs: Kwargs) -> Value:
    """An object: made by `__init__`, or of its annotated fields. It is noted with what it will hold."""
    made = Instance(callee)
    run.record(made_by(callee.qualname), None, [], made.attributes)
    start = callee.member("__init__")
    if isinstance(start, Definition):
        invoke(run, Bound(start, made), args, kwargs)
        return made
    held = [p for b in callee.bases if (p := layers.parameters(b, args, kwargs)) is not None]
    if held:
        made.attributes |= held[0]
        return made
    fields = callee.member("__fields__")
    names = fields if isinstance(fields, list) else []
    made.attributes |= dict(zip((str(n) for n in names), args, strict=False)) | dict(kwargs)
    return made


def _instance(run: Run, callee: Instance, args: Args, kwargs: Kwargs) -> Value:
    """A layer is called: what it builds first, then what it computes."""
    for name in ("setup", "build"):
        build = callee.cls.member(name)
        if isinstance(build, Definition) and not callee.is_built:
            first = args[0] if args else UNKNOWN
            shape = member(first, "shape", run) if isinstance(first, Array) else UNKNOWN
            invoke(run, Bound(build, callee), [shape] if name == "build" else [], {})
    callee.is_built = True
    for name in ("__call__", "forward", "call"):
        method = callee.cls.member(name)
        if isinstance(method, Definition):
            return invoke(run, Bound(method, callee), args, kwargs)
    return UNKNOWN


def _layer(run: Run, callee: Layer, args: Args, kwargs: Kwargs) -> Value:
    out: Value = args[0] if args else UNKNOWN
    if not callee.stack:
        return layers.applied(callee, out)
    for each in callee.stack:
        out = invoke(run, each, [out], {})
    return out


def _method(run: Run, callee: Method, args: Args, kwargs: Kwargs) -> Value:
    owner = callee.owner
    if isinstance(owner, Method) and owner.name == "at":  # `x.at[i].set(v)`
        return owner.owner
    if REST in args:
        return UNKNOWN
    if isinstance(owner, Array):
        return methods.called(owner, callee.name, args, kwargs)
    if isinstance(owner, Instance):
        if callee.name == "apply" and len(args) > 1:  # flax: parameters first
            return invoke(run, owner, args[1:], {})
        if callee.name in ("to", "cuda", "cpu", "eval", "train", "double", "float"):
            return owner
        return layers.inherited(owner, callee.name, args, kwargs)
    if isinstance(owner, dict):
        return _of_dictionary(owner, callee.name, args)
    return UNKNOWN


def _of_dictionary(owner: dict[Value, Value], name: str, args: Args) -> Value:
    if name == "values":
        return list(owner.values())
    if name == "items":
        return list(owner.items())
    known = name == "get" and args and isinstance(args[0], (str, int))
    return owner.get(args[0], args[1] if len(args) > 1 else None) if known else UNKNOWN


def _transformed(run: Run, callee: Transformed, args: Args, kwargs: Kwargs) -> Value:
    if callee.how == "partial":
        return invoke(run, callee.function, [*callee.args, *args], {**callee.kwargs, **kwargs})
    if callee.how == "vmap":
        invoke(run, callee.function, _without_axis(args, callee.kwargs.get("in_axes", callee.kwargs.get("in_dims", 0))), {})  # fmt: skip
        return UNKNOWN
    out = invoke(run, callee.function, args, kwargs)
    if callee.how == "custom_gradient":
        return out[0] if isinstance(out, tuple) and len(out) == 2 else UNKNOWN
    return UNKNOWN


def _without_axis(args: Args, axes: Value) -> list[Value]:
    """The arguments as one call under `vmap` sees them."""
    each = list(axes) if isinstance(axes, (tuple, list)) else [axes] * len(args)
    return [_row(arg, axis) for arg, axis in zip(args, each, strict=False)]


def _row(arg: Value, axis: Value) -> Value:
    if axis is None:
        return arg
    if not isinstance(arg, Array) or type(axis) is not int or not -len(arg.shape) <= axis < len(arg.shape):  # fmt: skip
        return UNKNOWN
    at = axis % len(arg.shape)
    return Array(arg.kind, (*arg.shape[:at], *arg.shape[at + 1 :]), arg.range)


def _is_callable(value: Value) -> bool:
    return isinstance(value, (Definition, Bound, Applied, Alias, Transformed, Instance, Class)) or (
        isinstance(value, Library) and value.last in _TRANSPARENT | {"custom_gradient"}
    )


def _library(run: Run, callee: Library, args: Args, kwargs: Kwargs) -> Value:
    root = callee.name.partition(".")[0]
    if args and _is_callable(args[0]):
        return _of_function(run, callee, args, kwargs)
    if root == "builtins":
        if callee.last == "dict":
            return _made_dictionary(args, kwargs)
        return _builtin(callee.last, args)
    if root in ("torch", "keras", "tensorflow", "flax"):
        layer = layers.layer(callee, args, kwargs)
        if layer is not None:
            return layer
    if callee.last == "partial" and args:
        return Transformed("partial", args[0], tuple(args[1:]), kwargs)
    if root not in library.ROOTS or REST in args:
        return UNKNOWN
    return library.called(callee.name, args, kwargs)


def _of_function(run: Run, callee: Library, args: Args, kwargs: Kwargs) -> Value:
    """A library's function of a function: what it does with it, where that is known."""
    function, last = args[0], callee.last
    if last in _TRANSPARENT:
        return function
    if last == "custom_gradient":
        return Transformed("custom_gradient", function)
    if last == "partial":
        return Transformed("partial", function, tuple(args[1:]), kwargs)
    if last in ("vmap", "pmap"):
        axes = {"in_axes": args[1]} if len(args) > 1 else {}
        return Transformed("vmap", function, (), {**axes, **kwargs})
    if "autograd.functional" in callee.name or last in _CHECKED:
        at = _CHECKED.get(last, 1)
        inputs = args[at] if len(args) > at else kwargs.get("inputs", kwargs.get("args", UNKNOWN))
        invoke(run, function, list(inputs) if isinstance(inputs, (tuple, list)) else [inputs], {})
        return UNKNOWN
    if last in _LATER:
        return Transformed("derived", function)
    if last in _AT_ONCE:
        return (invoke(run, function, args[1:], kwargs), UNKNOWN)
    return UNKNOWN


def _is_item(pair: tuple[Value, ...]) -> bool:
    return len(pair) == 2 and isinstance(pair[0], (str, int))


def _made_dictionary(args: Args, kwargs: Kwargs) -> Value:
    """`dict(w=w, b=b)`, also of another dictionary or of pairs."""
    first: Value = args[0] if args else {}
    if isinstance(first, dict) and len(args) < 2:
        return {**first, **kwargs}
    pairs = elements(first) if len(args) == 1 else None
    made = {p[0]: p[1] for p in pairs or () if isinstance(p, tuple) and _is_item(p)}
    whole = pairs is not None and all(isinstance(p, tuple) and _is_item(p) for p in pairs)
    return {**made, **kwargs} if whole else UNKNOWN


def _builtin(name: str, args: Args) -> Value:
    first = args[0] if args else UNKNOWN
    if name == "len":
        if isinstance(first, Array) and first.shape:
            return UNKNOWN if first.shape[0] is None else first.shape[0]
        return len(first) if isinstance(first, (tuple, list, dict, str)) else UNKNOWN
    if name == "range":
        short = all(type(a) is int for a in args) and 1 <= len(args) <= 2
        numbers = range(*(a for a in args if isinstance(a, int))) if short else range(0)
        return list(numbers) if short and len(numbers) <= 16 else UNKNOWN
    rows = elements(first)
    if rows is not None and name in ("tuple", "list"):
        return tuple(rows) if name == "tuple" else rows
    if name == "enumerate" and rows is not None:
        return [(i, row) for i, row in enumerate(rows)]
    if name == "zip":
        columns = [elements(a) for a in args]
        known = [c for c in columns if c is not None]
        return [tuple(r) for r in zip(*known, strict=False)] if len(known) == len(args) else UNKNOWN
    if name in ("int", "float") and isinstance(first, (int, float)):
        return int(first) if name == "int" and abs(first) < 1e9 else float(first)
    return A_FLOAT if name == "float" else UNKNOWN


_RULES: Mapping[type, Callable[..., Value]] = {
    Definition: _definition, Bound: _bound, Applied: _applied, Alias: _alias, Class: _class,
    Instance: _instance, Layer: _layer, Method: _method, Transformed: _transformed, Library: _library,
}  # fmt: skip
