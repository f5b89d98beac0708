"""Values of expressions as a file writes them: numbers, arrays of library functions, objects of its own classes.

Nothing of the user's is run but constructors of the module's own classes; of libraries only what makes
arrays and numbers of such. A function of the module that only names values and returns one is read, and so
is what calls elsewhere hand to a parameter.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.discover import written_calls
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_LIBRARIES = frozenset({"numpy", "jax", "jaxlib", "torch", "tensorflow", "keras", "math"})
_MAKERS = frozenset(
    [
        "zeros",
        "ones",
        "full",
        "empty",
        "eye",
        "identity",
        "arange",
        "linspace",
        "logspace",
        "geomspace",
        "array",
        "asarray",
        "tensor",
        "as_tensor",
        "constant",
        "stack",
        "concatenate",
        "hstack",
        "vstack",
        "meshgrid",
        "tile",
        "repeat",
        "diag",
        "tril",
        "triu",
        "zeros_like",
        "ones_like",
        "full_like",
        "sqrt",
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "abs",
        "square",
        "power",
        "floor",
        "ceil",
        "prod",
        "sum",
        "cumsum",
        "mean",
        "max",
        "min",
        "maximum",
        "minimum",
        "clip",
        "sort",
        "argsort",
        "key",
        "PRNGKey",
        "default_rng",
        "RandomState",
        "split",
        "fold_in",
        "normal",
        "uniform",
        "randn",
        "rand",
        "randint",
        "integers",
        "random",
        "standard_normal",
        "choice",
        "permutation",
        "randperm",
        "exponential",
        "gamma",
        "beta",
        "poisson",
        "dirichlet",
        "bernoulli",
        "truncated_normal",
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "radians",
        "deg2rad",
        "astype",
        "reshape",
        "copy",
        "item",
        "tolist",
        "transpose",
        "to",
        "float",
        "double",
        "long",
        "int",
        "flatten",
        "ravel",
        "unsqueeze",
    ]
)
_BUILTINS = ("int", "float", "bool", "str", "tuple", "list", "dict", "range", "len", "max", "min", "abs", "round", "sum")  # fmt: skip
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
_LARGEST = 1 << 20  # numbers in an array
_DEEPEST = 48  # expressions within expressions, names within names
_MOST_STEPS = 4096  # expressions of one reading


class UnreadableError(CgcheckError):
    """The value would have to be run, or rests on what is not known."""


@dataclass(slots=True)
class _Shared:
    """What the scopes of one reading have in common: the file, how much was read, and which parameters are being followed."""

    tree: ast.Module | None
    steps: int = 0
    followed: set[tuple[int, str]] = field(default_factory=set)


@dataclass(slots=True)
class Scope:
    """The names of a module, and those that the functions around an expression assign once, the nearest first."""

    module: ModuleType
    functions: tuple[ast.FunctionDef, ...] = ()
    _read: dict[str, Any] = field(default_factory=dict)
    _depth: int = 0
    _shared: _Shared | None = None
    _turns: dict[str, Any] = field(default_factory=dict)  # of the loops around an item

    def value(self, node: ast.expr) -> Any:
        """The value of an expression; an error for anything that would have to be run."""
        self._depth += 1
        self._common.steps += 1
        try:
            if self._depth > _DEEPEST or self._common.steps > _MOST_STEPS:
                raise UnreadableError("deeper than anybody writes")
            return self._value(node)
        finally:
            self._depth -= 1

    @property
    def _common(self) -> _Shared:
        if self._shared is None:
            self._shared = _Shared(written_calls.tree_of(self.module))
        return self._shared

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Tuple() | ast.List() | ast.Dict():
                return self._collection(node)
            case ast.Name():
                return self._named(node.id)
            case ast.Call():
                return self._called(node)
            case (
                ast.ListComp(elt=item, generators=loops)
                | ast.GeneratorExp(elt=item, generators=loops)
            ):
                return list(self._items(item, loops))
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self._applied(bool, self.value(test)) else other)
        return self._operated(node)

    def _collection(self, node: ast.Tuple | ast.List | ast.Dict) -> Any:
        if isinstance(node, ast.Dict):
            pairs = [
                (self.value(key), self.value(value))
                for key, value in zip(node.keys, node.values, strict=True)
                if key
            ]
            return self._applied(dict, pairs)
        items = [self.value(item) for item in node.elts]
        return tuple(items) if isinstance(node, ast.Tuple) else items

    def _items(self, item: ast.expr, loops: list[ast.comprehension]) -> Iterator[Any]:
        """The items of a list that is written as loops, each with the names of its turn."""
        if not loops:
            yield self.value(item)
            return
        before, (loop, *deeper) = self._turns, loops
        for value in self._listed(self.value(loop.iter)):
            self._turns = before | self._of_turn(loop.target, value)
            if all(self._applied(bool, self.value(test)) for test in loop.ifs):
                yield from self._items(item, deeper)
        self._turns = before

    def _listed(self, values: Any) -> list[Any]:
        """What is gone through, if it is a list, a range or an array of few."""
        if not isinstance(values, (list, tuple, range)) and not hasattr(values, "shape"):
            raise UnreadableError("it would have to be run")
        if self._applied(len, values) > _MOST_STEPS:
            raise UnreadableError("too long")
        return list(self._applied(list, values))

    def _of_turn(self, target: ast.expr, value: Any) -> dict[str, Any]:
        match target:
            case ast.Name(id=name):
                return {name: value}
            case ast.Tuple(elts=parts) if all(isinstance(p, ast.Name) for p in parts):
                names = [p.id for p in parts if isinstance(p, ast.Name)]
                return dict(zip(names, self._listed(value), strict=False))
        raise UnreadableError(ast.unparse(target))

    def _operated(self, node: ast.expr) -> Any:
        match node:
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return self._applied(_OPERATORS[type(op)], self.value(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._applied(_OPERATORS[type(op)], self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                return self._applied(_OPERATORS[type(op)], self.value(left), self.value(right))
            case ast.Subscript(value=base, slice=index):
                return self._applied(operator.getitem, self.value(base), self.value(index))
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(self.value(each) if each else None for each in (lower, upper, step)))
            case ast.Attribute():
                return self._applied(getattr, self.value(node.value), node.attr)
        raise UnreadableError(ast.unparse(node))

    def _named(self, name: str) -> Any:
        if name in self._turns:
            return self._turns[name]
        if name not in self._read:
            turns, self._turns = self._turns, {}
            try:
                self._read[name] = self._looked_up(name)
            finally:
                self._turns = turns
        return self._read[name]

    def _looked_up(self, name: str) -> Any:
        for function in self.functions:
            bound = list(_bindings(function, name))
            if bound:
                if bound == [None] and name in _parameters(function):
                    return self._passed(function, name)
                if len(bound) > 1 or bound[0] is None:
                    raise UnreadableError(f"`{name}` has several values, or none that is written")
                expression, place = bound[0]
                value = self.value(expression)
                return value if place is None else self._applied(operator.getitem, value, place)
        if name in vars(self.module):
            return vars(self.module)[name]
        if name in _BUILTINS:
            return getattr(builtins, name)
        raise UnreadableError(f"`{name}` is not known")

    def _passed(self, function: ast.FunctionDef, name: str) -> Any:
        """What the first call elsewhere that can be read hands to a parameter."""
        tree, place = self._common.tree, (function.lineno, name)
        known = tree is not None and place not in self._common.followed
        self._common.followed.add(place)
        for node, around in written_calls.passed(tree, function, name) if tree and known else ():
            with contextlib.suppress(UnreadableError, UserCodeError):
                return self._elsewhere(around, {}).value(node)
        raise UnreadableError(f"`{name}` is handed on by nothing that can be read")

    def _elsewhere(self, around: written_calls.Around, given: dict[str, Any]) -> Scope:
        return Scope(self.module, around, given, self._depth, self._common)

    def _result(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """What a function of the module gives that only names values, and returns one."""
        tree = self._common.tree
        node = None if tree is None else written_calls.definition(tree, function)
        result = None if node is None else written_calls.only_result(node)
        if node is None or result is None:
            raise UnreadableError(f"`{function.__name__}` would have to be run")
        with calling_user_code():
            given = inspect.signature(function).bind(*arguments, **keywords).arguments
        if any(len(list(_bindings(node, name))) > 1 for name in given):
            raise UnreadableError("a parameter is given another value")
        return self._elsewhere((node,), dict(given)).value(result)

    def _called(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(function, "__name__", "")  # fmt: skip
        is_own = inspect.isfunction(function) and function.__module__ == self.module.__name__
        if not is_own and not self._may_be_called(function, name):
            raise UnreadableError(f"`{ast.unparse(node.func)}` would have to be run")
        arguments = [self.value(argument) for argument in node.args]
        keywords = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        if len(keywords) < len(node.keywords):
            raise UnreadableError("keywords that are not written one by one")
        if is_own:
            return self._result(function, arguments, keywords)
        return self._applied(function, *arguments, **keywords)

    def _may_be_called(self, function: Any, name: str) -> bool:
        if inspect.isclass(function) and function.__module__ == self.module.__name__:
            return True
        if any(function is getattr(builtins, each) for each in _BUILTINS):
            return True
        owner = getattr(function, "__self__", None)
        home = getattr(function, "__module__", None) or type(owner).__module__
        return name in _MAKERS and home.partition(".")[0] in _LIBRARIES

    def _applied(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """What the function gives; a number that would make a huge array is none that we try."""
        numbers = [n for n in _numbers([*arguments, *keywords.values()]) if type(n) is int]
        if any(abs(number) > _LARGEST for number in numbers):
            raise UnreadableError("too large")
        with calling_user_code():
            value = function(*arguments, **keywords)
            if hasattr(value, "shape") and math.prod(value.shape) > _LARGEST:
                raise UnreadableError("too large")
        return value


def _numbers(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _numbers(list(value))
        else:
            yield value


def _bindings(function: ast.FunctionDef, name: str) -> Iterator[tuple[ast.expr, int | None] | None]:
    """What a function gives a name: an expression, and its place in a tuple; None where it is not written."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    defaults = dict(zip([p.arg for p in positional][::-1], a.defaults[::-1], strict=False))
    defaults |= {p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None}  # fmt: skip
    for parameter in (*positional, *a.kwonlyargs, a.vararg, a.kwarg):
        if parameter is not None and parameter.arg == name:
            yield (defaults[name], None) if name in defaults else None
    if any(node is not function and _defines(node, name) for node in ast.walk(function)):
        yield None
    plain = [node for node in function.body if isinstance(node, ast.Assign)]
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            assigned = next((p for p in plain if any(node is n for n in ast.walk(p))), None)
            yield None if assigned is None else _given(assigned, node)


def _defines(node: ast.AST, name: str) -> bool:
    """Does a definition or an import give the name?"""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == name
    return isinstance(node, ast.alias) and (node.asname or node.name).partition(".")[0] == name


def _parameters(function: ast.FunctionDef) -> set[str]:
    a = function.args
    return {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}


def _given(assigned: ast.Assign, name: ast.Name) -> tuple[ast.expr, int | None] | None:
    """`a = …`, `a, b = …`."""
    (target, *others) = assigned.targets
    if others:
        return None
    if target is name:
        return assigned.value, None
    if isinstance(target, ast.Tuple) and name in target.elts:
        place = target.elts.index(name)
        if isinstance(assigned.value, ast.Tuple) and len(assigned.value.elts) == len(target.elts):
            return assigned.value.elts[place], None
        return assigned.value, place
    return None
