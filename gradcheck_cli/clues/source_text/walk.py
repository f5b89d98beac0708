"""The walk over a function's statements: names are followed as long as they stand for one thing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradcheck_cli.clues.source_text import comparisons, shapes
from gradcheck_cli.clues.source_text.expressions import Names, Reader, loop_names
from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.nesting import Nesting, nestings_of
from gradcheck_cli.clues.source_text.tree import Text, definition_text, text_of
from gradcheck_cli.clues.source_text.values import (
    Constant,
    Context,
    Dim,
    Local,
    Many,
    Member,
    Part,
    Pieces,
    Value,
)
from gradcheck_cli.inputs.clue import Kind

_DEEPEST = 3
_MOST_READINGS = 100  # of functions inside, each with what it is called with
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(slots=True)
class Walk:
    """One reading of one text."""

    text: Text
    facts: Facts
    nestings: Mapping[str, Nesting]
    saved: dict[str, Value] = field(default_factory=dict)  # what a rule keeps on its context
    helpers: int = 1  # how deep functions of the module are read that are called
    depth: int = 0  # of functions inside of each other
    returned: list[Value] = field(default_factory=list)

    def read(self, names: Names) -> None:
        """Read all statements; `names` are the parameters' values."""
        self._statements(self.text.statements, dict(names))

    def _reader(self, names: Names) -> Reader:
        return Reader(names, self.text.surroundings, self.facts, self.nestings, self.saved, self)

    # -- what the reader of expressions asks back -----------------------------------------

    def inner(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, names: Names
    ) -> None:
        """A function inside: its parameters are its own."""
        self.local(Local(node, names), (), {})

    def local(
        self, function: Local, arguments: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        """A function inside, called with these arguments."""
        text = definition_text(function.node, self.text.surroundings)
        self.facts.readings += 1
        if self.depth >= _DEEPEST or self.facts.readings > _MOST_READINGS:
            return None
        own = dict(function.names) | _bound(text, arguments, named)
        inside = replace(self, text=text, depth=self.depth + 1, returned=[])
        with self.facts.within(shapes_hold=True):
            inside.read(own)
        return _only(inside.returned)

    def called(
        self,
        function: Callable[..., object],
        arguments: Sequence[Value],
        named: Mapping[str, Value],
    ) -> Value:
        """A function of the same module: its text is read with these arguments."""
        followed = any(isinstance(v, (Part, Many)) for v in (*arguments, *named.values()))
        text = text_of(function) if self.helpers and followed else None
        if text is None:
            return None
        names = _bound(text, arguments, named)
        inside = Walk(
            text, self.facts, nestings_of(text, names, self.nestings), helpers=self.helpers - 1
        )
        with self.facts.reading(f"{self.facts.text}>{text.name}"):
            inside.read(names)
        return _only(inside.returned)

    # -- statements -----------------------------------------------------------------------

    def _statements(self, statements: Sequence[ast.stmt], names: Names) -> bool:
        """Read statements, and change `names` as they do. Do they end here?"""
        for statement in statements:
            self.facts.node = statement
            self._statement(statement, names)
            if isinstance(statement, _ENDS):
                return True
        return False

    def _statement(self, node: ast.stmt, names: Names) -> None:
        value = self._reader(names).value
        match node:
            case ast.Assign(targets=targets, value=right):
                result = value(right)
                for target in targets:
                    self._assign(target, result, names)
            case ast.AnnAssign(target=target, value=ast.expr() as right):
                self._assign(target, value(right), names)
            case ast.AugAssign(target=target, value=right):
                self._updated(target, value(right), names)
            case ast.Return(value=ast.expr() as right):
                self.returned.append(value(right))
            case ast.Assert(test=test):
                comparisons.required(test, True, value, self.facts)
            case ast.Expr(value=right):
                value(right)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names[node.name] = None
                self.inner(node, names)
                names[node.name] = Local(node, names)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    names.pop(alias.asname or alias.name.partition(".")[0], None)
            case _:
                self._block(node, names)

    def _block(self, node: ast.stmt, names: Names) -> None:
        """Statements that hold others."""
        match node:
            case ast.If():
                self._if(node, names)
            case ast.Match():
                self._match(node, names)
            case ast.For(target=target, iter=several, body=body, orelse=rest):
                over = self._reader(names).value(several)
                if isinstance(over, Part) and self.nestings.get(over.path) is Nesting.TREE:
                    self.facts.kind(over, Kind.TREE)
                self._loop(
                    (*body, *rest), names, loop_names(target, several, self._reader(names).value)
                )
            case ast.While(test=test, body=body, orelse=rest):
                self._reader(names).value(test)
                self._loop((*body, *rest), names, {})
            case ast.With():
                self._with(node, names)
            case ast.Try(body=body, handlers=handlers, orelse=rest, finalbody=final):
                branches = [body, *(h.body for h in handlers), rest, final]
                self._branches([(b, True) for b in branches], names)
            case _:
                names |= dict.fromkeys(_assigned([node]))

    def _with(self, node: ast.With, names: Names) -> None:
        for item in node.items:
            self._reader(names).value(item.context_expr)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, None, names)
        self._statements(node.body, names)

    def _assign(self, target: ast.expr, result: Value, names: Names) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = result
            self.facts.given[target.id] = self.facts.given.get(target.id, 0) + 1
            if isinstance(result, Dim):
                self.facts.name(result, target.id, self.facts.new_scope())
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, result, names)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            if isinstance(names.get(target.value.id), Context):
                self.saved[target.attr] = result
        elif isinstance(target, ast.Subscript):
            self._reader(names).value(target)

    def _unpack(self, target: ast.Tuple | ast.List, result: Value, names: Names) -> None:
        sizes = shapes.unpacked(result, target, self.facts)
        plain = [e for e in target.elts if not isinstance(e, ast.Starred)]
        starred = len(plain) < len(target.elts)
        items: Sequence[Value] = [None] * len(target.elts)
        if isinstance(result, Many) and len(result.items) == len(target.elts) and not starred:
            items = result.items
        elif isinstance(result, Pieces) and not starred:
            self.facts.pieces(result, len(target.elts))
        elif isinstance(result, Part) and result.itself and not starred:
            items = self._elements(result, target.elts)
        for element, item in zip(target.elts, items, strict=True):
            inner = element.value if isinstance(element, ast.Starred) else element
            self._assign(inner, item, names)
        names |= sizes or {}

    def _elements(self, part: Part, targets: Sequence[ast.expr]) -> Sequence[Value]:
        """The elements of a tuple that is a parameter; a row vector has numbers."""
        kind, count = self.nestings.get(part.path), len(targets)
        if kind is Nesting.VECTOR and not part.dropped:
            self.facts.least_rank(part, 1)
            self.facts.size(self.facts.axis(part, 0), count)
        if kind is Nesting.OPEN and not part.dropped:
            names = (t.id if isinstance(t, ast.Name) else "" for t in targets)
            return [Member(part.path, count, i, name) for i, name in enumerate(names)]
        if kind is not Nesting.TREE:
            return [None] * count
        self.facts.kind(part, Kind.TREE)
        return [Part(f"{part.path}[{i}]") for i in range(count)]

    def _updated(self, target: ast.expr, right: Value, names: Names) -> None:
        if isinstance(target, ast.Name):
            here = names.get(target.id)
            kept = isinstance(here, Part) and isinstance(right, Constant)
            names[target.id] = (
                replace(here, itself=False) if kept and isinstance(here, Part) else None
            )
        else:
            self._reader(names).value(target)

    # -- branches -----------------------------------------------------------------------------

    def _if(self, node: ast.If, names: Names) -> None:
        value = self._reader(names).value
        if comparisons.ends_in_raise(node.body):
            comparisons.required(node.test, False, value, self.facts)
            comparisons.rejected(node.test, value, self.facts)
            self._statements(node.orelse, names)
            return
        value(node.test)
        comparisons.chosen(node.test, value, self.facts)
        holds = not comparisons.on_shapes(node.test, value)
        optional = _compared_with_none(node.test)
        self._branches([(node.body, holds), (node.orelse, holds)], names, optional)

    def _match(self, node: ast.Match, names: Names) -> None:
        subject = self._reader(names).value(node.subject)
        for case in node.cases:
            raising = comparisons.ends_in_raise(case.body)
            for pattern in ast.walk(case.pattern):
                if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
                    plain = pattern.value.value
                    if isinstance(plain, str) and not raising:
                        self.facts.kind(subject, Kind.WORD, (plain,))
        self._branches([(case.body, True) for case in node.cases], names)

    def _branches(
        self,
        branches: Sequence[tuple[Sequence[ast.stmt], bool]],
        names: Names,
        optional: frozenset[str] = frozenset(),
    ) -> None:
        """Read branches; after them a name stands for what it stands for in all that go on."""
        outcomes = []
        for statements, shapes_hold in branches:
            own = dict(names)
            with self.facts.within(shapes_hold):
                if not self._statements(statements, own):
                    outcomes.append(own)
        for name in {n for own in outcomes for n in own}:
            results = [own.get(name) for own in outcomes]
            if any(r != results[0] for r in results) or not all(name in own for own in outcomes):
                names[name] = names.get(name) if name in optional else None
            else:
                names[name] = results[0]

    def _loop(self, body: Sequence[ast.stmt], names: Names, own: Names) -> None:
        """A loop's body, where what it assigns is not followed from one turn to the next."""
        for name in _assigned(body):
            names[name] = None
        names |= own
        with self.facts.within(shapes_hold=True):
            self._statements(body, dict(names))


def _bound(text: Text, arguments: Sequence[Value], named: Mapping[str, Value]) -> Names:
    """The parameters of a function that is called, by their names."""
    names: Names = dict.fromkeys(text.parameters)
    names |= dict(zip(text.parameters, arguments, strict=False))
    names |= {name: value for name, value in named.items() if name in names}
    return names | dict.fromkeys(text.starred)


def _only(returned: Sequence[Value]) -> Value:
    """What every `return` gives; None where they differ."""
    return returned[0] if returned and all(r == returned[0] for r in returned) else None


def _compared_with_none(test: ast.expr) -> frozenset[str]:
    """The name in `if bias is None`, whose branch gives it a value."""
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name):
        other = test.comparators[0]
        if isinstance(other, ast.Constant) and other.value is None:
            return frozenset({test.left.id})
    return frozenset()


def _assigned(statements: Sequence[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
