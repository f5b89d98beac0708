"""Expressions: what each stands for, and what its operations say of the parameters in it.

Long because it is one reader: every kind of expression asks it of its parts.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any, Protocol

from gradcheck_cli.clues.source_text import (
    comparisons,
    computed,
    counted_shares,
    indices,
    shapes,
    sizes,
)
from gradcheck_cli.clues.source_text.arithmetic import combined
from gradcheck_cli.clues.source_text.calls import called
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.nesting import Nesting
from gradcheck_cli.clues.source_text.values import (
    At,
    Call,
    Computed,
    Constant,
    Context,
    Either,
    Extents,
    Fresh,
    Global,
    Keyed,
    Local,
    Many,
    Mapped,
    Member,
    Part,
    Rank,
    Scalar,
    Shape,
    Span,
    Turned,
    Value,
    element,
    itself,
    listed,
    whole,
)
from gradcheck_cli.inputs.clue import Kind

Names = dict[str, Value]
_OF_ARRAYS = frozenset({"shape", "ndim", "T", "mT", "H", "mH", "dtype", "at", "size", "real", "imag", "device", "data", "grad", "requires_grad", "is_cuda", "nbytes", "itemsize", "weak_type", "aval", "layout", "is_sparse", "names", "strides", "base", "flat"})  # fmt: skip
_CONSTANTS = {"inf": math.inf, "pi": math.pi, "newaxis": None}  # of every library
_OF_MASKS = (ast.BitAnd, ast.BitOr)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Functions(Protocol):
    """What reads functions that stand inside of an expression, or are called in it."""

    def inner(self, node: ast.Lambda, names: Names) -> None: ...
    def local(
        self, function: Local, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> Value: ...
    def called(
        self,
        function: Callable[..., object],
        arguments: Sequence[Value],
        named: Mapping[str, Value],
    ) -> Value: ...


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of expressions, with what the names in them stand for."""

    names: Names
    surroundings: Mapping[str, Any]
    facts: Facts
    nestings: Mapping[str, Nesting]
    saved: Mapping[str, Value]
    functions: Functions

    def value(self, node: ast.expr | None) -> Value:
        """What the expression stands for; its operations are noted on the way."""
        result: Value = None
        match node:
            case ast.Name(id=name):
                result = self.names[name] if name in self.names else self._global(name)
            case ast.Constant(value=plain):
                result = Constant(plain)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                result = Many(tuple(self.value(item) for item in items))
            case ast.Attribute():
                result = self._attribute(node)
            case ast.Subscript():
                result = self._subscript(node)
            case ast.Call():
                result = self._call(node)
            case ast.UnaryOp():
                result = self._unary(node)
            case ast.BinOp():
                result = self._binary(node)
            case ast.IfExp():
                result = self._either(node)
            case ast.NamedExpr(target=target, value=right):
                result = self.names[target.id] = self.value(right)
            case ast.expr():
                result = self._further(node)
        return result

    def _further(self, node: ast.expr) -> Value:
        """Functions, and expressions of which only the parts are read."""
        match node:
            case ast.BoolOp(op=ast.Or(), values=[first, *others]):
                for other in others:
                    self.value(other)
                return self._or(self.value(first))
            case ast.Dict():
                return self._dictionary(node)
            case ast.Lambda():
                self.functions.inner(node, self.names)
                return Local(node, self.names)
            case ast.Compare():
                comparisons.compared(node, self.value, self.facts)
            case ast.Slice(lower=lower, upper=upper, step=step):
                bounds = [self.value(lower), self.value(upper), self.value(step)]
                indices.slice_bounds(bounds, self.facts)
                return Span(bounds[0], bounds[1]) if step is None else None
            case _:
                self._others(node)
        return None

    def _dictionary(self, node: ast.Dict) -> Value:
        """`{"w": dw, "b": db}`; nothing where a key is not written down."""
        keys, values = map(self.value, node.keys), [self.value(v) for v in node.values]
        items = [(k.value, v) for k, v in zip(keys, values, strict=True) if isinstance(k, Constant)]
        return Keyed(tuple(items)) if len(items) == len(values) else None

    def _or(self, first: Value) -> Value:
        """`stride or k`: the parameter, which may be None."""
        if itself(first) is not None:
            self.facts.may_be(first, None)
        return first if itself(first) is not None else None

    def _others(self, node: ast.expr) -> None:
        """Read the parts of an expression; a comprehension has names of its own."""
        reader = self
        if isinstance(node, _COMPREHENSIONS):
            bound: Names = {}
            for generator in node.generators:
                self.value(generator.iter)
                bound |= loop_names(generator.target, generator.iter)
            reader = replace(self, names=self.names | bound)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                reader.value(child)

    # -- names and what hangs on them ------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Value:
        if node.attr in _CONSTANTS and self._library(node.value):
            return Constant(_CONSTANTS[node.attr])
        base = self.value(node.value)
        if isinstance(base, Context):
            return self.saved.get(node.attr)
        if isinstance(base, Shape) and node.attr in ("rank", "ndims"):
            return Rank(base.part) if base.whole else None
        if node.attr == "at" and (base is not None or self._is_local(node.value)):
            return At(base)
        if isinstance(base, (Computed, Turned)):
            return computed.attribute(base, node.attr)
        if not isinstance(base, Part):
            return None
        if node.attr in _OF_ARRAYS:
            return shapes.attribute(base, node.attr, self.facts)
        return Part(f"{base.path}.{node.attr}") if itself(base) is not None else None

    def _subscript(self, node: ast.Subscript) -> Value:
        base, index = self.value(node.value), self.value(node.slice)
        if isinstance(base, Shape):
            return shapes.subscript(base, node.slice, index, self.facts)
        if isinstance(base, Many):
            place = index.value if isinstance(index, Constant) else None
            fits = type(place) is int and -len(base.items) <= place < len(base.items)
            return base.items[place] if fits and type(place) is int else None
        if isinstance(base, Extents):
            return base.of.axis(place) if (place := whole(index)) is not None else None
        self._words_of(node.value, index)
        part = itself(base)
        nesting = None if part is None else self.nestings.get(part.path)
        if part is not None and isinstance(index, Constant):
            inside = nesting is Nesting.TREE and type(index.value) is int
            if inside or isinstance(index.value, str):
                self.facts.kind(part, Kind.TREE)
                return self.facts.part(f"{part.path}[{index.value!r}]")
        if nesting is Nesting.TREE:
            self.facts.kind(part, Kind.TREE)
        if nesting in (Nesting.TREE, Nesting.OPEN):
            place = whole(index)
            counted = part is not None and nesting is Nesting.OPEN and place is not None
            return (
                Member(part.path, place + 1, place)
                if counted and part and place is not None
                else None
            )
        return indices.indexed(base, node.slice, index, self.facts)

    def _words_of(self, table: ast.expr, index: Value) -> None:
        """`{"mean": …}[mode]`, `_REDUCTIONS[mode]`: the keys are the words."""
        keys: list[object] = []
        if isinstance(table, ast.Dict):
            keys = [k.value for k in table.keys if isinstance(k, ast.Constant)]
        elif isinstance(table, ast.Name) and table.id not in self.names:
            found = self.surroundings.get(table.id)
            keys = list(found) if type(found) is dict else []
        if keys and all(isinstance(k, str) for k in keys):
            self.facts.kind(index, Kind.WORD, keys)

    def _either(self, node: ast.IfExp) -> Value:
        self.value(node.test)
        comparisons.chosen(node.test, self.value, self.facts)
        with self.facts.within(not comparisons.on_shapes(node.test, self.value)):
            one, other = self.value(node.body), self.value(node.orelse)
        if one is None and other is None:
            return self._either_function(node)
        return one if one == other else self._given(node)

    def _either_function(self, node: ast.IfExp) -> Value:
        """One of two functions of libraries, if the sides are such."""
        sides = [side for side in (node.body, node.orelse) if isinstance(side, ast.Attribute)]
        libraries = [self._library(side.value) for side in sides]
        both = len(sides) > 1 and all(libraries)
        return Either(sides[0].attr, libraries[0]) if both else None

    def _given(self, node: ast.IfExp) -> Value:
        """`width if stride is None else stride`: the parameter, which may be None."""
        test, sides = node.test, (node.orelse, node.body)
        asked = isinstance(test, ast.Compare) and test.comparators[0]
        if not isinstance(test, ast.Compare) or getattr(asked, "value", "") is not None:
            return None
        given = sides[0] if isinstance(test.ops[0], ast.Is) else sides[1]
        same = ast.dump(given) == ast.dump(test.left) and not isinstance(given, ast.Constant)
        return itself(self.value(given)) if same else None

    # -- operators ------------------------------------------------------------------------

    def _unary(self, node: ast.UnaryOp) -> Value:
        operand = self.value(node.operand)
        if isinstance(operand, Constant) and isinstance(node.op, ast.USub):
            plain = operand.value
            return Constant(-plain) if isinstance(plain, (int, float)) else None
        if isinstance(node.op, ast.Invert):
            self.facts.kind(operand, Kind.BOOLS)
        if isinstance(node.op, ast.Not):
            return None
        return replace(operand, itself=False) if isinstance(operand, Part) else None

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.MatMult):
            self.facts.product(left, right)
            return computed.product(left, right)
        if isinstance(node.op, _OF_MASKS) and any(map(_is_of_masks, (node.left, node.right))):
            for mask in (left, right):
                self.facts.kind(mask, Kind.BOOLS)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            exact = isinstance(node.op, ast.FloorDiv)
            rest = sizes.divided(left, right, exact, self.facts)
            return rest if not exact else None
        if isinstance(left, Many) and isinstance(right, Many) and isinstance(node.op, ast.Add):
            return Many(left.items + right.items)
        if isinstance(node.op, ast.Mult) and (several := sizes.times(left, right)) is not None:
            return several
        return combined(left, right, self.facts.plain)

    # -- calls --------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Value:
        named = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        function = node.func
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        operands = tuple(self.value(a) for a in node.args)
        counted_shares.call(node, self.value, self.facts)
        if starred:
            operands = operands[: [isinstance(a, ast.Starred) for a in node.args].index(True)]
        if isinstance(function, ast.Name):
            return self._by_name(node, function.id, operands, named)
        if isinstance(function, ast.Attribute):
            library = self._library(function.value)
            if library:
                made = Call(function.attr, library, operands, named, node)
                result = called(made, self.facts)
                return self._higher(made) if result is None else result
            return self._method(node, function, operands, named)
        inner = self.value(function)
        return self._follow(inner, operands, named)

    def _follow(
        self, function: Value, operands: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        """A call of a function whose text is there."""
        if isinstance(function, Mapped):
            for operand in operands:
                self.facts.least_rank(operand, 1)
            self._follow(function.function, [element(o) for o in operands], {})
        elif isinstance(function, Local):
            return self.functions.local(function, operands, named)
        elif isinstance(function, Global):
            return self.functions.called(function.function, operands, named)
        elif isinstance(function, Part) and function.path in self.facts.functions:
            return self.functions.called(self.facts.functions[function.path], operands, named)
        return None

    def _higher(self, made: Call) -> Value:
        """`vmap(f)`, `scan(f, init, xs)`, `fori_loop(n, m, f, init)`, `map(f, xs)`."""
        first, second = made.argument(0, "f", "fun"), made.argument(1, "init", "xs")
        for several in listed(made.argument(2, "xs")) if made.name == "scan" else ():
            self.facts.least_rank(several, 1)
        if made.name == "vmap" and len(made.operands) == 1 and not made.keywords:
            return Mapped(first) if isinstance(first, (Local, Global)) else Mapped(None)
        if made.name == "scan":
            self._follow(first, [second, element(made.argument(2, "xs"))], {})
        elif made.name == "fori_loop":
            self._follow(made.argument(2, "body_fun"), [Scalar(), made.argument(3, "init_val")], {})
        elif made.name == "map" and made.library.endswith("lax"):
            self.facts.least_rank(second, 1)
            self._follow(first, [element(second)], {})
        return None

    def _by_name(
        self, node: ast.Call, name: str, operands: tuple[Value, ...], named: dict[str, Value]
    ) -> Value:
        if isinstance(chosen := self.names.get(name), Either):
            return called(Call(chosen.name, chosen.library, operands, named, node), self.facts)
        if name in self.names:
            self.facts.kind(self.names[name], Kind.FUNCTION)
            return self._follow(self.names[name], operands, named)
        function = self.surroundings.get(name)
        if function is None and hasattr(builtins, name):
            return called(Call(name, "", operands, named, node), self.facts)
        followed = self._global(name)
        if isinstance(followed, Global):
            return self._follow(followed, operands, named)
        name = str(getattr(function, "__name__", name))
        library = str(getattr(function, "__module__", "") or "library")
        made = Call(name, library, operands, named, node)
        result = called(made, self.facts)
        return self._higher(made) if result is None else result

    def _method(
        self,
        node: ast.Call,
        function: ast.Attribute,
        operands: tuple[Value, ...],
        named: dict[str, Value],
    ) -> Value:
        base = self.value(function.value)
        if isinstance(base, Context):
            if function.attr == "save_for_backward" and isinstance(self.saved, dict):
                self.saved["saved_tensors"] = Many(operands)
            return self._follow_own(function.attr, operands, named)
        if function.attr == "get" and operands:
            self._words_of(function.value, operands[0])
        if function.attr == "apply":  # a rule's primal, called under the name of its class
            return None
        if isinstance(base, Part) and function.attr in ("items", "keys", "values", "get"):
            self.facts.kind(base, Kind.TREE)
            return None
        if _is_update(function.value) and isinstance(base, (Part, Fresh)):
            return base
        member = self._member(function) if base is None else None
        if member is not None:
            return self._follow(member, operands, named)
        made = Call(function.attr, "", (base, *operands), named, node, method=True)
        return called(made, self.facts)

    def _follow_own(self, name: str, operands: tuple[Value, ...], named: dict[str, Value]) -> Value:
        """`self.windows(x)`: a method of the class that the text stands in."""
        member = inspect.getattr_static(self.surroundings.get("__class__"), name, None)
        static = isinstance(member, (staticmethod, classmethod))
        found = self._own(member.__func__ if static else member) if callable(member) else None
        if found is None:
            return None
        given = operands if isinstance(member, staticmethod) else (Context(), *operands)
        return self._follow(found, given, named)

    def _member(self, node: ast.Attribute) -> Global | None:
        """`Pool.windows`: a static method of a class of the same module."""
        is_name = isinstance(node.value, ast.Name) and node.value.id not in self.names
        owner = self.surroundings.get(node.value.id) if isinstance(node.value, ast.Name) and is_name else None  # fmt: skip
        member = inspect.getattr_static(owner, node.attr, None) if isinstance(owner, type) else None
        return self._own(member.__func__) if isinstance(member, staticmethod) else None

    def _library(self, node: ast.expr) -> str:
        """The dotted name of a module in the text; empty if the expression is a value."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.names:
            return ""
        found = self.surroundings.get(node.id)
        if isinstance(found, ModuleType):
            return ".".join([found.__name__, *reversed(names)])
        return "" if node.id in self.surroundings else ".".join([node.id, *reversed(names)])

    def _is_local(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in self.names)

    def _global(self, name: str) -> Global | Constant | None:
        """The function of this name, if its globals are those of the text that is read; or the constant."""
        found = self.surroundings.get(name)
        if isinstance(found, (bool, int, str)) and name.isupper():
            return Constant(found)
        if not callable(found) or isinstance(found, type):
            return None
        return self._own(found)

    def _own(self, function: Callable[..., Any]) -> Global | None:
        """The function, if its globals are those of the text that is read."""
        try:
            inner = inspect.unwrap(function)
        except ValueError:
            return None
        own = self.surroundings.get("__name__")
        is_own = isinstance(inner, FunctionType) and inner.__globals__.get("__name__") == own
        return Global(inner) if is_own else None


def loop_names(
    target: ast.expr, several: ast.expr, value: Callable[[ast.expr], Value] = lambda _: None
) -> Names:
    """The names that a loop gives: a number for each turn over a `range`, or what is not followed."""
    names: Names = {n.id: None for n in ast.walk(target) if isinstance(n, ast.Name)}
    if isinstance(several, ast.Call) and getattr(several.func, "id", "") == "reversed":
        return loop_names(target, several.args[0], value) if several.args else names
    over = getattr(several.func, "id", "") if isinstance(several, ast.Call) else ""
    if over == "range" and isinstance(several, ast.Call) and isinstance(target, ast.Name):
        names[target.id] = Scalar(value(several.args[:2][-1]) if several.args else None)
    if (
        over == "enumerate"
        and isinstance(target, ast.Tuple)
        and isinstance(target.elts[0], ast.Name)
    ):
        names[target.elts[0].id] = Scalar()
    return names


def _is_update(node: ast.expr) -> bool:
    """Is it `x.at[i]`, of `x.at[i].add(…)`?"""
    above = node.value if isinstance(node, ast.Subscript) else None
    return isinstance(above, ast.Attribute) and above.attr == "at"


def _is_of_masks(node: ast.expr) -> bool:
    """Is it a comparison, what is not something, or a slice? What stands beside it, joined bit by bit, is a mask."""
    inner = node.slice if isinstance(node, ast.Subscript) else None
    slices = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    inverted = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)
    return (
        isinstance(node, ast.Compare) or inverted or any(isinstance(s, ast.Slice) for s in slices)
    )
