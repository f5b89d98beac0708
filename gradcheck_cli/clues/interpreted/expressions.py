"""Expressions interpreted: each kind of node one small method."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence

from gradcheck_cli.clues.interpreted import arithmetic, idioms, methods, shapes
from gradcheck_cli.clues.interpreted.run import REST, Run, anything, forget
from gradcheck_cli.clues.interpreted.values import (
    KEY,
    UNKNOWN,
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
    Value,
)

_MOST_ITEMS = 16
_CONSTANTS = {"pi": 3.141592653589793, "e": 2.718281828459045, "newaxis": None}
_BUILTINS = {"float": Library("builtins.float"), "int": Library("builtins.int"), "bool": Library("builtins.bool")}  # fmt: skip
_FUNCTIONS = frozenset({"len", "range", "tuple", "list", "dict", "max", "min", "abs", "zip", "enumerate", "super"})  # fmt: skip
_SIGNS: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@",
}  # fmt: skip
_ORDER: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def evaluate(node: ast.expr | None, scope: Scope, run: Run) -> Value:
    """What the expression stands for; unknown where nothing here reads it."""
    run.steps += 1
    if node is None or run.is_over:
        return UNKNOWN
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, scope, run)
    for child in ast.iter_child_nodes(node):  # calls inside still count
        if isinstance(child, ast.expr):
            evaluate(child, scope, run)
    return UNKNOWN


def truth(value: Value) -> bool | None:
    """Is it true? None where that cannot be read."""
    if value is None or isinstance(value, (bool, int, float, str, tuple, list, dict)):
        return bool(value)
    return True if isinstance(value, (Definition, Class, Instance, Bound)) else None


def elements(value: Value) -> list[Value] | None:
    """What a loop over the value runs through, if it is short and known."""
    if isinstance(value, (tuple, list, dict)) and len(value) <= _MOST_ITEMS:
        return list(value)
    return None


def _constant(node: ast.Constant, scope: Scope, run: Run) -> Value:
    plain = node.value is None or node.value is Ellipsis
    return node.value if plain or isinstance(node.value, (bool, int, float, str)) else UNKNOWN


def _name(node: ast.Name, scope: Scope, run: Run) -> Value:
    value = scope.value(node.id)
    if value is UNKNOWN and node.id == "__name__":
        return "__main__"
    if value is UNKNOWN and node.id in _FUNCTIONS:
        return Library(f"builtins.{node.id}")
    return _BUILTINS.get(node.id, UNKNOWN) if value is UNKNOWN else value


def _attribute(node: ast.Attribute, scope: Scope, run: Run) -> Value:
    return member(evaluate(node.value, scope, run), node.attr, run)


def member(owner: Value, name: str, run: Run) -> Value:
    """`owner.name`."""
    if isinstance(owner, Library):
        full = Library(f"{owner.name}.{name}")
        return _CONSTANTS.get(name, full) if owner.name in ("numpy", "jax.numpy", "math") else full
    if isinstance(owner, Array):
        return methods.attribute(owner, name)
    if isinstance(owner, Instance):
        return _of_instance(owner, name, run)
    if isinstance(owner, Class):
        return _of_class(owner, name)
    if isinstance(owner, Scope):
        return owner.names.get(name, UNKNOWN)
    if isinstance(owner, Layer) and len(owner.sizes) == 2 and name in ("weight", "bias"):
        shape = shapes.shape_of(owner.sizes[::-1] if name == "weight" else owner.sizes[1:])
        return UNKNOWN if shape is None else Array("f32", shape)
    if isinstance(owner, tuple) and len(owner) == 2 and name in ("values", "indices"):
        return owner[name == "indices"]
    return Method(owner, name)


def _of_instance(owner: Instance, name: str, run: Run) -> Value:
    if name in owner.attributes:
        return owner.attributes[name]
    value = owner.cls.member(name)
    if not isinstance(value, Definition):
        return Method(owner, name) if value is UNKNOWN else value
    if "property" in value.traits:
        return run.invoke(run, Bound(value, owner), [], {})
    return value if "static" in value.traits else Bound(value, owner)


def _of_class(owner: Class, name: str) -> Value:
    value = owner.member(name)
    if value is UNKNOWN and name == "apply" and is_function(owner):
        return Applied(owner)
    if isinstance(value, Definition) and "class" in value.traits:
        return Bound(value, owner)
    return value


def is_function(cls: Class) -> bool:
    """Is it a torch `Function`?"""
    return any(
        is_function(b) if isinstance(b, Class) else isinstance(b, Library) and b.last == "Function"
        for b in cls.bases
    )


def _call(node: ast.Call, scope: Scope, run: Run) -> Value:
    callee = evaluate(node.func, scope, run)
    args = list(_positional(node, scope, run))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = evaluate(keyword.value, scope, run)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, dict) and all(isinstance(k, str) for k in value):
            kwargs |= value
        elif REST not in args:
            args.append(REST)
    if isinstance(callee, Method) and _changes(callee, args, scope, run):
        return UNKNOWN
    before, run.place = run.place, (scope.module, node)
    out = run.invoke(run, callee, args, kwargs)
    run.place = before
    if isinstance(callee, Method) and isinstance(callee.owner, Array) and callee.name.endswith("_"):
        forget(scope, callee.owner, out)
    return out


def _positional(node: ast.Call, scope: Scope, run: Run) -> Iterator[Value]:
    for arg in node.args:
        if not isinstance(arg, ast.Starred):
            yield evaluate(arg, scope, run)
            continue
        value = evaluate(arg.value, scope, run)
        if not isinstance(value, (tuple, list)):
            yield REST
            return
        yield from value


def _changes(method: Method, args: Sequence[Value], scope: Scope, run: Run) -> bool:
    """Does the method change a list or a dictionary where it stands?"""
    owner = method.owner
    if not isinstance(owner, (list, dict)) or method.name in ("items", "keys", "values", "get", "copy", "index", "count"):  # fmt: skip
        return False
    if isinstance(owner, list) and method.name == "append" and len(args) == 1 and not run.doubtful:
        owner.append(args[0])
    else:
        forget(scope, owner, UNKNOWN)
    return True


def _binary(node: ast.BinOp, scope: Scope, run: Run) -> Value:
    left, right = evaluate(node.left, scope, run), evaluate(node.right, scope, run)
    sign = _SIGNS.get(type(node.op))
    out = UNKNOWN if sign is None else arithmetic.combined(sign, left, right)
    return idioms.recognised(node, left, out) if isinstance(out, Array) else out


def _unary(node: ast.UnaryOp, scope: Scope, run: Run) -> Value:
    value = evaluate(node.operand, scope, run)
    if isinstance(node.op, ast.USub):
        return arithmetic.negated(value)
    if isinstance(node.op, ast.Not):
        known = truth(value)
        return UNKNOWN if known is None else not known
    return value if isinstance(node.op, ast.UAdd) or isinstance(value, Array) else UNKNOWN


def _compare(node: ast.Compare, scope: Scope, run: Run) -> Value:
    left = evaluate(node.left, scope, run)
    rights = [evaluate(c, scope, run) for c in node.comparators]
    return _compared(node.ops[0], left, rights[0]) if len(rights) == 1 else UNKNOWN


def _compared(sign: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(sign, (ast.Is, ast.IsNot)):
        same = _is_none(left) if right is None else None
        return UNKNOWN if same is None else same is isinstance(sign, ast.Is)
    if isinstance(left, Array) or isinstance(right, Array):
        return arithmetic.compared(left, right)
    if isinstance(sign, (ast.Eq, ast.NotEq)) and _is_plain(left) and _is_plain(right):
        return (left == right) is isinstance(sign, ast.Eq)
    if isinstance(sign, (ast.In, ast.NotIn)) and _is_plain(left) and isinstance(right, (tuple, list)) and _is_plain(right):  # fmt: skip
        return (left in right) is isinstance(sign, ast.In)
    one, other = arithmetic.plain_number(left), arithmetic.plain_number(right)
    order = _ORDER.get(type(sign))
    return UNKNOWN if order is None or one is None or other is None else order(one, other)


def _is_none(value: Value) -> bool | None:
    if value is None:
        return True
    known = (bool, int, float, str, tuple, list, dict, Array, Definition, Class, Instance)
    return False if isinstance(value, known) else None


def _is_plain(value: Value) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _bool(node: ast.BoolOp, scope: Scope, run: Run) -> Value:
    values = [evaluate(v, scope, run) for v in node.values]
    for value in values:
        known = truth(value)
        if known is None:
            return UNKNOWN
        if known is isinstance(node.op, ast.Or):
            return value
    return values[-1]


def _choice(node: ast.IfExp, scope: Scope, run: Run) -> Value:
    known = truth(evaluate(node.test, scope, run))
    if known is not None:
        return evaluate(node.body if known else node.orelse, scope, run)
    run.doubtful += 1
    evaluate(node.body, scope, run)
    evaluate(node.orelse, scope, run)
    run.doubtful -= 1
    return UNKNOWN


def _tuple(node: ast.Tuple, scope: Scope, run: Run) -> Value:
    items = _items(node.elts, scope, run)
    return UNKNOWN if items is None else tuple(items)


def _list(node: ast.List, scope: Scope, run: Run) -> Value:
    items = _items(node.elts, scope, run)
    return UNKNOWN if items is None else items


def _items(nodes: Sequence[ast.expr], scope: Scope, run: Run) -> list[Value] | None:
    items: list[Value] = []
    for node in nodes:
        if not isinstance(node, ast.Starred):
            items.append(evaluate(node, scope, run))
            continue
        value = evaluate(node.value, scope, run)
        if not isinstance(value, (tuple, list)):
            return None
        items += value
    return items


def _dict(node: ast.Dict, scope: Scope, run: Run) -> Value:
    out: dict[Value, Value] = {}
    known = True
    for key, value in zip(node.keys, node.values, strict=True):
        name, item = evaluate(key, scope, run), evaluate(value, scope, run)
        if key is None and isinstance(item, dict):
            out |= item
        elif isinstance(name, (str, int)):
            out[name] = item
        else:
            known = False
    return out if known else UNKNOWN


def _subscript(node: ast.Subscript, scope: Scope, run: Run) -> Value:
    owner = evaluate(node.value, scope, run)
    index = evaluate(node.slice, scope, run)
    if isinstance(owner, Array):
        shape = shapes.indexed(owner.shape, index)
        return UNKNOWN if shape is None else Array(owner.kind, shape, owner.range)
    if isinstance(owner, dict):
        return owner.get(index, UNKNOWN) if isinstance(index, (str, int)) else UNKNOWN
    if isinstance(owner, (tuple, list)):
        if type(index) is int and -len(owner) <= index < len(owner):
            return owner[index]
        return owner[index] if isinstance(index, slice) and _is_cut(index) else UNKNOWN
    if isinstance(owner, Method) and owner.name == "at" and isinstance(owner.owner, Array):
        return Method(anything(owner.owner), "at")
    return KEY if owner is KEY else UNKNOWN


def _is_cut(index: slice) -> bool:
    return index.step != 0 and all(v is None or type(v) is int for v in (index.start, index.stop, index.step))  # fmt: skip


def _slice(node: ast.Slice, scope: Scope, run: Run) -> Value:
    ends = [None if n is None else evaluate(n, scope, run) for n in (node.lower, node.upper, node.step)]  # fmt: skip
    return slice(*ends)


def _lambda(node: ast.Lambda, scope: Scope, run: Run) -> Value:
    return Definition(node, scope.inner("<lambda>"), scope, defaults_of(node.args, scope, run))


def defaults_of(arguments: ast.arguments, scope: Scope, run: Run) -> dict[str, Value]:
    """The values of parameters that a call may leave out."""
    placed = [*arguments.posonlyargs, *arguments.args]
    count = len(arguments.defaults)
    pairs = list(zip(placed[len(placed) - count :], arguments.defaults, strict=True))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]  # fmt: skip
    return {a.arg: evaluate(default, scope, run) for a, default in pairs}


def _comprehension(
    node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, scope: Scope, run: Run
) -> Value:
    """Items one by one, where there is one short loop and no condition; else once, in doubt."""
    inner = Scope(scope.module, scope.qualname, scope)
    first = node.generators[0]
    rows = elements(evaluate(first.iter, scope, run))
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    simple = len(node.generators) == 1 and not first.ifs and rows is not None
    out: list[list[Value]] = []
    run.doubtful += not simple
    for row in rows if simple and rows is not None else [UNKNOWN]:
        bind(first.target, row, inner)
        for generator in node.generators[1:]:
            bind(generator.target, UNKNOWN, inner)
        out.append([evaluate(part, inner, run) for part in parts])
    run.doubtful -= not simple
    if not simple or isinstance(node, ast.SetComp):
        return UNKNOWN
    if isinstance(node, ast.DictComp):
        known = all(isinstance(key, (str, int)) for key, _ in out)
        return {pair[0]: pair[1] for pair in out} if known else UNKNOWN
    return [value for (value,) in out]


def bind(target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind names to a value, one by one where there are several."""
    if isinstance(target, ast.Name):
        scope.names[target.id] = value
    elif isinstance(target, ast.Starred):
        bind(target.value, UNKNOWN, scope)
    elif isinstance(target, (ast.Tuple, ast.List)):
        starred = any(isinstance(t, ast.Starred) for t in target.elts)
        fits = isinstance(value, (tuple, list)) and len(value) == len(target.elts) and not starred
        values = value if fits and isinstance(value, (tuple, list)) else [_part(value)] * len(target.elts)  # fmt: skip
        for each, part in zip(target.elts, values, strict=True):
            bind(each, part, scope)


def _part(value: Value) -> Value:
    """What each of several names gets out of a value that is no tuple."""
    if isinstance(value, Array) and value.shape:
        return Array(value.kind, value.shape[1:], value.range)
    return KEY if value is KEY else UNKNOWN


def _walrus(node: ast.NamedExpr, scope: Scope, run: Run) -> Value:
    value = evaluate(node.value, scope, run)
    bind(node.target, value, scope)
    return value


_Rule = Callable[..., Value]
_RULES: Mapping[type[ast.expr], _Rule] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.Call: _call,
    ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _compare, ast.BoolOp: _bool,
    ast.IfExp: _choice, ast.Tuple: _tuple, ast.List: _list, ast.Dict: _dict,
    ast.Subscript: _subscript, ast.Slice: _slice, ast.Lambda: _lambda,
    ast.ListComp: _comprehension, ast.GeneratorExp: _comprehension, ast.SetComp: _comprehension,
    ast.DictComp: _comprehension, ast.NamedExpr: _walrus,
}  # fmt: skip
