"""From source to terms: imports resolved, variables replaced by what they hold, through simple branches.

Nothing is imported and nothing is run. What cannot be followed is a name of its own, of which nothing is known.

One class in one long file: a statement holds expressions, and an expression (a lambda, a helper) holds statements.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcheck_cli.lint import terms
from gradcheck_cli.lint.accumulation import accumulations, carried_products
from gradcheck_cli.lint.calls import Call, product_of_matrices, term_of_call
from gradcheck_cli.lint.names import (
    Scope,
    imports,
    own_classes,
    plain_number,
    setting,
    settings,
    short_functions,
)
from gradcheck_cli.lint.nodes import walk
from gradcheck_cli.lint.spans import Span
from gradcheck_cli.lint.terms import Term
from gradcheck_cli.lint.vocabulary import METHODS, bare_name, head_of

_BUILTINS = frozenset({"int", "abs", "max", "min", "sum", "pow", "float"})
_DEEPEST_CALL = 3  # calls inside of calls that are looked into
_HALF_ULP = 2.0**-24  # beside 1, of float32
_PAIRS = ("max", "min")  # of torch, with places beside the values
_LARGEST = 120  # parts of a term: beyond, a value is a name
_MOST_COMPARED = 400  # terms that are remembered
_MOST_INLINED = 500  # calls of a module that are looked into
_OPERATIONS: dict[type[ast.operator], Callable[[Term, Term], Term]] = {
    ast.Add: lambda a, b: terms.total([a, b]),
    ast.Sub: terms.difference,
    ast.Mult: lambda a, b: terms.product([a, b]),
    ast.Div: terms.quotient,
    ast.Pow: terms.power,
}
_COMPARED = {ast.Gt: "gt", ast.GtE: "ge", ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lifted:
    """A term at the place where it is made, and what the code around it has compared until then."""

    term: Term
    span: Span
    compared: tuple[Term, ...] = ()
    asked: bool = False  # is it a condition, or computed without a gradient?


@dataclass(frozen=True, slots=True)
class Scene:
    """An expression where it stands, with what the names around it hold there."""

    node: ast.expr
    scope: Scope
    lifter: _Lifter

    def term(self, node: ast.expr) -> Term:
        """What another expression would be, if it stood there."""
        return self.lifter.lift(node, self.scope.inner(), silent=True)


@dataclass(slots=True)
class _Lifter:
    imported: Mapping[str, str]
    stars: Sequence[str]
    watched: frozenset[Span] = frozenset()  # places of which the scene is kept
    scenes: dict[Span, Scene] = field(default_factory=dict)
    found: list[Lifted] = field(default_factory=list)
    functions: Mapping[str, ast.FunctionDef] = field(default_factory=dict)  # short ones, by name
    fresh: Iterator[int] = field(default_factory=itertools.count)
    constants: Mapping[str, Term] = field(default_factory=dict)  # of the module
    inlining: int = 0
    inlined_calls: int = 0

    # -- statements ----------------------------------------------------------------------

    def body(self, statements: Sequence[ast.stmt], scope: Scope) -> bool:
        """Lift these in their order; True if they leave the function."""
        return any(self.statement(statement, scope) for statement in statements)

    def statement(self, node: ast.stmt, scope: Scope) -> bool:
        """Lift one; True if it leaves the function."""
        if isinstance(node, ast.Return | ast.Raise | ast.Continue | ast.Break):
            if isinstance(node, ast.Return) and node.value is not None:
                scope.returned = self.lift(node.value, scope)
            return True
        if isinstance(node, ast.If):
            return self.branches(node.test, node.body, node.orelse, scope)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self.block(node, scope)
        self.simple_statement(node, scope)
        return False

    def simple_statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node, scope)
                scope.values.pop(node.name, None)
            case ast.ClassDef():
                inner = scope.inner()
                inner.values |= settings(node)
                self.body(node.body, inner)
            case ast.Assign() | ast.AnnAssign() if node.value is not None:
                value = self.lift(node.value, scope)
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self.assign(target, node.value, value, scope)
            case ast.AugAssign():
                self.augmented(node, scope)
            case ast.Assert():
                self.condition(node.test, scope)
            case ast.Expr():
                self.lift(node.value, scope)
                self.in_place(node.value, scope)
            case _:
                self.compound_statement(node, scope)

    def compound_statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.For() | ast.AsyncFor():
                self.lift(node.iter, scope)
                self.loop([*node.body, *node.orelse], scope, [node.target])
            case ast.While():
                self.forget([*node.body], scope)
                self.condition(node.test, scope)
                self.loop([*node.body, *node.orelse], scope, [])
            case ast.Try() | ast.TryStar():
                self.body([*node.body, *node.orelse], scope)
                for handler in node.handlers:
                    self.body(handler.body, scope.inner())
                self.body(node.finalbody, scope)
            case ast.Match():
                for case in node.cases:
                    self.body(case.body, scope.inner())
                self.forget([node], scope)
            case _:
                pass

    def block(self, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
        before = scope.without_gradient
        for item in node.items:
            self.lift(item.context_expr, scope)
            text = ast.unparse(item.context_expr)
            scope.without_gradient |= "no_grad" in text or "inference_mode" in text
            if item.optional_vars is not None:
                self.forget_target(item.optional_vars, scope)
        left = self.body(node.body, scope)
        scope.without_gradient = before
        return left

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.lift(default, scope)
        inner = scope.inner()
        inner.compared = ()
        inner.without_gradient = any("no_grad" in ast.unparse(d) for d in node.decorator_list)
        self.parameters(node.args, inner)
        self.body(node.body, inner)

    def parameters(self, args: ast.arguments, scope: Scope) -> None:
        """Each is a name; one for a small number is its default."""
        every = [*args.posonlyargs, *args.args]
        defaults: dict[str, ast.expr] = {
            a.arg: d for a, d in zip(every[len(every) - len(args.defaults) :], args.defaults, strict=True)
        }  # fmt: skip
        defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}  # fmt: skip
        more = [a for a in (args.vararg, args.kwarg) if a is not None]
        for arg in (*every, *args.kwonlyargs, *more):
            scope.values[arg.arg] = self.unknown(arg.arg)
            default = plain_number(defaults.get(arg.arg))
            if default is not None:
                known = setting(arg.arg, default, scope.values[arg.arg])
                scope.values[arg.arg] = known or scope.values[arg.arg]

    def branches(
        self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], scope: Scope
    ) -> bool:
        """Both ways; afterwards a name holds what both leave in it."""
        self.condition(test, scope)
        one, other = scope.inner(), scope.inner()
        left, left_other = self.body(body, one), self.body(orelse, other)
        kept = [s for s, gone in ((one, left), (other, left_other)) if not gone]
        if not kept:
            return True
        names = {n for s in kept for n in s.values}
        scope.values.clear()
        for each in sorted(names):
            held = [s.values.get(each) for s in kept]
            same = all(h == held[0] for h in held)
            scope.values[each] = held[0] if same and held[0] is not None else self.unknown(each)
        scope.compared = tuple(c for s in kept for c in s.compared)[-_MOST_COMPARED:]
        return False

    def loop(self, body: Sequence[ast.stmt], scope: Scope, targets: Sequence[ast.expr]) -> None:
        grown = [
            each for each in accumulations(body) if each.starts_from(scope.values.get(each.name))
        ]
        self.forget(body, scope)
        for target in targets:
            self.forget_target(target, scope)
        self.body(body, scope)
        held = {a.name: a.of(self.lift(a.taken, scope, silent=True)) for a in grown}
        held |= {n: terms.call("carried", self.unknown(n)) for n in carried_products(body)}
        self.forget(body, scope)
        scope.values |= held

    def forget(self, statements: Sequence[ast.AST], scope: Scope) -> None:
        """Names that are bound in these hold nothing that is known."""
        for statement in statements:
            for node in walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    scope.values[node.id] = self.unknown(node.id)

    def forget_target(self, target: ast.expr, scope: Scope) -> None:
        self.forget([target], scope)

    def condition(self, test: ast.expr, scope: Scope) -> None:
        before = len(self.found)
        term = self.lift(test, scope)
        self.found[before:] = [
            Lifted(f.term, f.span, f.compared, asked=True) for f in self.found[before:]
        ]
        scope.compared = (*scope.compared, *term.parts())[-_MOST_COMPARED:]

    def assign(self, target: ast.expr, node: ast.expr, value: Term, scope: Scope) -> None:
        match target:
            case ast.Name():
                scope.values[target.id] = value
            case ast.Attribute():
                scope.values[ast.unparse(target)] = value
            case ast.Tuple() | ast.List():
                self.unpacked(target, node, value, scope)
            case ast.Subscript():
                self.forget_base(target.value, scope)
            case _:
                pass

    def unpacked(
        self, target: ast.Tuple | ast.List, node: ast.expr, value: Term, scope: Scope
    ) -> None:
        """`a, b = f(x), g(x)`, and `top, places = x.max(dim=0)`."""
        names, parts = target.elts, node.elts if isinstance(node, ast.Tuple | ast.List) else []
        if value.head in _PAIRS and len(names) == 2:
            self.assign(names[0], node, value, scope)
            self.forget_target(names[1], scope)
        elif any(isinstance(e, ast.Starred) for e in (*parts, *names)):
            for name in names:
                self.forget_target(name, scope)
        elif len(parts) == len(names):
            held = [self.lift(p, scope.inner(), silent=True) for p in parts]
            for name, part, term in zip(names, parts, held, strict=True):
                self.assign(name, part, term, scope)
        elif value.head == "tuple" and len(value.args) == len(names):
            for name, term in zip(names, value.args, strict=True):
                self.assign(name, node, term, scope)
        else:
            for name in names:
                self.forget_target(name, scope)

    def forget_base(self, node: ast.expr, scope: Scope) -> None:
        if isinstance(node, ast.Name):
            scope.values[node.id] = self.unknown(node.id)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        read = ast.copy_location(_as_read(node.target), node.target)
        whole = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        self.assign(node.target, node.value, self.lift(whole, scope), scope)

    def in_place(self, node: ast.expr, scope: Scope) -> None:
        """`x.clamp_(min=eps)` or `exp(x, out=y)` alone on its line: the name holds the result."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            return
        for keyword in node.keywords:
            if keyword.arg == "out" and isinstance(keyword.value, ast.Name):
                scope.values[keyword.value.id] = self.lift(node, scope, silent=True)
                return
        holder = node.func.value
        while isinstance(holder, ast.Call) and isinstance(holder.func, ast.Attribute):
            holder = holder.func.value
        if node.func.attr.endswith("_") and isinstance(holder, ast.Name):
            scope.values[holder.id] = self.lift(node, scope, silent=True)

    # -- expressions ---------------------------------------------------------------------

    def lift(self, node: ast.expr, scope: Scope, *, silent: bool = False) -> Term:
        """The term of an expression; its parts are found on the way."""
        before = len(self.found)
        term = self.expression(node, scope)
        if silent:
            del self.found[before:]
        return term

    def expression(self, node: ast.expr, scope: Scope) -> Term:
        term = self._expression(node, scope)
        if term.size > _LARGEST:
            return self.unknown("large")
        if isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp) and term.args:
            span = Span.of(node)
            self.found.append(Lifted(term, span, scope.compared, scope.without_gradient))
            if self.watched and not self.inlining and span in self.watched:
                self.scenes.setdefault(span, Scene(node, scope.inner(), self))
        return term

    def _expression(self, node: ast.expr, scope: Scope) -> Term:
        constant = plain_number(node)
        if constant is not None:
            return terms.number(constant)
        if isinstance(node, ast.Constant) and isinstance(node.value, complex):
            return Term("complex")
        lift = _BY_KIND.get(type(node))
        if lift is not None:
            return lift(self, node, scope)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child, scope)
        return self.unknown("?")

    def named(self, node: ast.Name, scope: Scope) -> Term:
        return scope.values.get(node.id) or self.constant_of_library(node) or terms.name(node.id)

    def signed(self, node: ast.UnaryOp, scope: Scope) -> Term:
        inner = self.expression(node.operand, scope)
        if isinstance(node.op, ast.USub):
            return terms.negative(inner)
        return inner if isinstance(node.op, ast.UAdd) else terms.call("not", inner)

    def comparison(self, node: ast.Compare, scope: Scope) -> Term:
        parts = [self.expression(p, scope) for p in (node.left, *node.comparators)]
        return terms.call(_COMPARED.get(type(node.ops[0]), "compare"), *parts)

    def both(self, node: ast.BoolOp, scope: Scope) -> Term:
        return terms.call("both", *(self.expression(v, scope) for v in node.values))

    def choice(self, node: ast.IfExp, scope: Scope) -> Term:
        self.condition(node.test, scope)
        ways = (self.expression(n, scope) for n in (node.body, node.orelse))
        return terms.call("branch", *ways)

    def starred(self, node: ast.Starred, scope: Scope) -> Term:
        return self.expression(node.value, scope)

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> Term:
        value = self.expression(node.value, scope)
        scope.values[node.target.id] = value
        return value

    def function_value(self, node: ast.Lambda, scope: Scope) -> Term:
        inner = scope.inner()
        self.parameters(node.args, inner)
        self.expression(node.body, inner)
        return self.unknown("lambda")

    def several(self, node: ast.Tuple | ast.List, scope: Scope) -> Term:
        return terms.call("tuple", *(self.expression(e, scope) for e in node.elts))

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> Term:
        inner = scope.inner()
        for generator in node.generators:
            self.expression(generator.iter, inner)
            self.forget_target(generator.target, inner)
            for test in generator.ifs:
                self.condition(test, inner)
        if isinstance(node, ast.DictComp):
            self.expression(node.key, inner)
            return terms.call("tuple", self.expression(node.value, inner))
        return terms.call("each", self.expression(node.elt, inner))

    def operation(self, node: ast.BinOp, scope: Scope) -> Term:
        left, right = self.expression(node.left, scope), self.expression(node.right, scope)
        if isinstance(node.op, ast.MatMult):
            return product_of_matrices(
                left, right, ast.unparse(node.left) == ast.unparse(node.right)
            )
        if isinstance(node.op, ast.Add) and _absorbs(left, right):
            self.found.append(Lifted(terms.call("absorbed", left, right), Span.of(node)))
        combine = _OPERATIONS.get(type(node.op))
        if combine is None:
            return terms.call(type(node.op).__name__.lower(), left, right)
        return combine(left, right)

    def attribute(self, node: ast.Attribute, scope: Scope) -> Term:
        text = ast.unparse(node)
        if text in scope.values:
            return scope.values[text]
        known = self.constant_of_library(node)
        if known is not None:
            return known
        inner = self.expression(node.value, scope)
        if node.attr in ("T", "mT", "real", "data"):
            return inner
        if isinstance(node.value, ast.Name) and node.value.id not in scope.values:
            return terms.name(text)
        return Term("attribute", (inner,), node.attr)

    def subscript(self, node: ast.Subscript, scope: Scope) -> Term:
        base = self.expression(node.value, scope)
        for child in walk(node.slice):
            if isinstance(child, ast.Call):
                self.expression(child, scope)
        where = ast.unparse(node.slice)
        if set(where) <= set(" :,.None()"):  # new axes alone
            return base
        if (
            base.head == "tuple"
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
        ):
            place = node.slice.value
            return base.args[place] if -len(base.args) <= place < len(base.args) else base
        return Term("index", (base,), where)

    def call(self, node: ast.Call, scope: Scope) -> Term:
        args = [self.expression(a, scope) for a in node.args]
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        held = {key: self.expression(value, scope) for key, value in keywords.items()}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.expression(keyword.value, scope)
        full = self.full(node.func, scope)
        bare = bare_name(full) if full else None
        if bare is not None:
            return term_of_call(Call(head_of(bare), args, held, keywords, node))
        if isinstance(node.func, ast.Attribute) and not full:
            return self.method(node, node.func, scope, args, held, keywords)
        if isinstance(node.func, ast.Name) and node.func.id not in scope.values:
            known = self.builtin(node.func.id, node, args, held, keywords)
            if known is None and not held:
                known = self.inlined(node.func.id, args)
            if known is not None:
                return known
        if not args and not held:
            return self.unknown(ast.unparse(node.func))
        return Term("call", (*args, *held.values()), full or ast.unparse(node.func))

    def method(
        self, node: ast.Call, function: ast.Attribute, scope: Scope, args: list[Term],
        held: Mapping[str, Term], keywords: Mapping[str, ast.expr],
    ) -> Term:  # fmt: skip
        """`x.log()` as `log(x)`; a method of nobody knows what as a call of it."""
        receiver = self.expression(function.value, scope)
        if head_of(function.attr) in METHODS or function.attr.rstrip("_") in METHODS:
            return term_of_call(
                Call(head_of(function.attr), [receiver, *args], held, keywords, node)
            )
        return Term("call", (receiver, *args, *held.values()), function.attr)

    def builtin(
        self, name: str, node: ast.Call, args: list[Term], held: Mapping[str, Term], keywords: Mapping[str, ast.expr]
    ) -> Term | None:  # fmt: skip
        if name == "float" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            text = str(node.args[0].value).lower().lstrip("+")
            return terms.number(float(text)) if text in ("inf", "-inf") else None
        if name not in _BUILTINS or not args:
            return None
        if name == "int":
            return terms.call("integer", args[0])
        if name in _PAIRS and len(args) > 1:
            return terms.call(f"{name}imum", *args)
        return term_of_call(Call(head_of(name), args, held, keywords, node))

    def inlined(self, name: str, args: Sequence[Term]) -> Term | None:
        """What a short function of the module gives for these arguments, if it gives one thing."""
        function = self.functions.get(name)
        if (
            function is None
            or self.inlining >= _DEEPEST_CALL
            or self.inlined_calls >= _MOST_INLINED
        ):
            return None
        self.inlined_calls += 1
        given = [*function.args.posonlyargs, *function.args.args]
        if (
            len(given) < len(args)
            or function.args.vararg
            or any(isinstance(a, ast.Starred) for a in args)
        ):
            return None
        scope = Scope(dict(self.constants))
        self.parameters(function.args, scope)
        scope.values |= {a.arg: value for a, value in zip(given, args, strict=False)}
        before = len(self.found)
        self.inlining += 1
        self.body(function.body, scope)
        self.inlining -= 1
        del self.found[before:]
        return scope.returned

    # -- names ---------------------------------------------------------------------------

    def full(self, node: ast.expr, scope: Scope) -> str:
        """The whole name of a function, where it is one of a module that is imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        if node.id in scope.values:
            return self.alias(scope.values[node.id], parts)
        if node.id not in self.imported:
            starred = [f"{module}.{node.id}" for module in self.stars if not parts]
            return starred[0] if starred and head_of(node.id) in METHODS else ""
        return ".".join([self.imported[node.id], *reversed(parts)])

    def alias(self, held: Term, parts: Sequence[str]) -> str:
        """The whole name behind a variable that holds a module or a function: `tfm = tf.math`."""
        if held.head != terms.NAME:
            return ""
        first, *rest = str(held.value).split(".")
        return (
            ".".join([self.imported[first], *rest, *reversed(parts)])
            if first in self.imported
            else ""
        )

    def constant_of_library(self, node: ast.expr) -> Term | None:
        """`np.pi`, `math.e`, `torch.inf`."""
        full = self.full(node, Scope({})) if isinstance(node, ast.Attribute | ast.Name) else ""
        known = {"pi": 3.141592653589793, "e": 2.718281828459045, "inf": float("inf")}
        bare = bare_name(full) if full else None
        return terms.number(known[bare]) if bare in known else None

    def unknown(self, text: str) -> Term:
        return terms.name(f"{text}#{next(self.fresh)}")


_BY_KIND: dict[type[ast.expr], Callable[[_Lifter, Any, Scope], Term]] = {
    ast.Name: _Lifter.named,
    ast.BinOp: _Lifter.operation,
    ast.UnaryOp: _Lifter.signed,
    ast.Call: _Lifter.call,
    ast.Compare: _Lifter.comparison,
    ast.BoolOp: _Lifter.both,
    ast.IfExp: _Lifter.choice,
    ast.Attribute: _Lifter.attribute,
    ast.Subscript: _Lifter.subscript,
    ast.Starred: _Lifter.starred,
    ast.NamedExpr: _Lifter.walrus,
    ast.Lambda: _Lifter.function_value,
    ast.ListComp: _Lifter.comprehension,
    ast.SetComp: _Lifter.comprehension,
    ast.GeneratorExp: _Lifter.comprehension,
    ast.DictComp: _Lifter.comprehension,
    ast.Tuple: _Lifter.several,
    ast.List: _Lifter.several,
}


def lift(tree: ast.Module) -> list[Lifted]:
    """All terms of a module, each where it is made."""
    return _lifted(tree, frozenset()).found


def scenes(tree: ast.Module, places: Iterable[Span]) -> Mapping[Span, Scene]:
    """The expressions at these places, with what names hold there."""
    lifter = _lifted(tree, frozenset(places))
    lifter.watched = frozenset()
    return lifter.scenes


def _lifted(tree: ast.Module, watched: frozenset[Span]) -> _Lifter:
    imported, stars = imports(tree)
    known = imported | own_classes(tree)
    lifter = _Lifter(known, stars, watched, functions=short_functions(tree))
    module = Scope({})
    later = [s for s in tree.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]  # fmt: skip
    lifter.body([s for s in tree.body if s not in later], module)
    lifter.constants = {n: held for n, held in module.values.items() if held.number is not None}
    lifter.body(later, module)
    return lifter


def expression(text: str, functions: Sequence[str]) -> Term:
    """The term of one expression, whose functions go by these bare names."""
    lifter = _Lifter({name: f"numpy.{name}" for name in functions}, [])
    return lifter.lift(ast.parse(text, mode="eval").body, Scope({}))


def _absorbs(left: Term, right: Term) -> bool:
    """Is the sum of a number and an eps the number, in float32? Whole numbers may be counts, which lose nothing."""
    if left.number is None or right.number is None:
        return False
    small, large = sorted((abs(left.number), abs(right.number)))
    return 0 < small < min(1, large * _HALF_ULP)


def _as_read(target: ast.expr) -> ast.expr:
    """The target of an assignment, as an expression that reads it."""
    read = ast.parse(ast.unparse(target), mode="eval").body
    for node in ast.walk(read):
        ast.copy_location(node, target)
    return read
