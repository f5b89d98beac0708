"""The repair of a finding: the stable form that its page proves, in the words of the file.

A page's proof says `log(1 + exp(x))` is `softplus(x)`. Where a finding has that form as a whole, what `x` stands for
is looked up in the source: the part of the expression itself, a variable that holds it at this place, or what an
earlier line computed. Where one of them has no text, there is no repair.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.lint import terms
from gradcheck_cli.lint.lifting import Scene
from gradcheck_cli.lint.matching import matches, pattern
from gradcheck_cli.lint.names import imports
from gradcheck_cli.lint.nodes import of_module
from gradcheck_cli.lint.spans import Span
from gradcheck_cli.lint.spellings import (
    FRAMEWORKS,
    Speller,
    UnspelledError,
    in_parentheses,
    place_of,
)
from gradcheck_cli.lint.terms import Options, Term
from gradcheck_cli.project.edits import lines_of
from gradcheck_cli.project.leftovers import acts, leftovers
from gradcheck_cli.project.rule_pages import Proof, Rule

# Which of several a method's object is of.
_ARRAYS = ("torch", "jax", "tensorflow", "keras", "numpy")
_PRODUCT = "1 * 1"
_FACTORS = ("factor_1", "factor_1 * factor_2", "factor_1 * factor_2 * factor_3")  # named by no page
_KEY = {"dim": "axis", "keepdim": "keepdims"}


@dataclass(frozen=True)
class Source:
    """A module's text and its tree."""

    text: str
    tree: ast.Module

    @functools.cached_property
    def _imports(self) -> tuple[Mapping[str, str], Sequence[str]]:
        return imports(self.tree)

    @property
    def imported(self) -> Mapping[str, str]:
        """What imported names stand for."""
        return self._imports[0]

    @property
    def stars(self) -> Sequence[str]:
        """Modules of which all names are imported."""
        return self._imports[1]

    @functools.cached_property
    def lines(self) -> Sequence[str]:
        return lines_of(self.text)

    def segment(self, node: ast.expr) -> str:
        """The text of an expression, on one line."""
        if node.lineno != node.end_lineno:
            return ast.unparse(node)
        line = self.lines[node.lineno - 1].encode()
        return line[node.col_offset : node.end_col_offset].decode()


@dataclass(frozen=True, slots=True)
class Repair:
    """Edits that belong together, the one at the finding first. `safe`: it computes the same, at least as well."""

    edits: Sequence[Edit]
    safe: bool


def repair(rule: Rule, term: Term, scene: Scene, source: Source) -> Repair | None:
    """The first proof of the page that speaks of the whole term, written out."""
    framework = _framework(scene, source)
    if framework is None or _does_more(scene.node, source.tree):
        return None
    for proof in (p for each in rule.proof if each.fix for p in _times(each)):
        for found in matches(pattern(proof.naive), term, whole=True):
            try:
                return _written(proof, found, term, scene, source, framework)
            except UnspelledError:
                continue
    return None


def _does_more(node: ast.expr, tree: ast.Module) -> bool:
    """Does it, or a statement about its names, also change or name something, as `x /= y`, `x.exp_()` and `(w := x)` do?

    A stable form would not.
    """
    if not any(node is each for each in ast.walk(tree)):  # an operator of a statement
        return True
    mine = _names(node)
    statements = (s for s in ast.walk(_owner(node, tree)) if isinstance(s, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return))  # fmt: skip
    return acts(node) or any(acts(s) and mine & _names(s) for s in statements)


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _times(proof: Proof) -> Iterator[Proof]:
    """What is proved, and of a product the same with other factors: `g * sinh(x) / cosh(x)` is `g * tanh(x)`."""
    yield proof
    if pattern(proof.naive).head != terms.PRODUCT:
        return
    one, over, divisor = proof.stable.partition("1 / ")
    by = f"/ {divisor}" if over and not one else f"* ({proof.stable})"
    for factors in _FACTORS:
        yield replace(proof, naive=f"{factors} * ({proof.naive})", stable=f"{factors} {by}")


def _written(
    proof: Proof, found: Mapping[str, Term], term: Term, scene: Scene, source: Source, framework: str
) -> Repair:  # fmt: skip
    reader = _Reader(scene, source)
    texts = {name: reader.text(held) for name, held in found.items()}
    speller = Speller(framework, source.imported, texts, _axis(term))
    text = speller.spell(proof.stable)
    around = _around(scene.node, source.tree)
    here = _with_parentheses(Span.of(scene.node), source) if around else Span.of(scene.node)
    edits = [_edit(source, here, in_parentheses(text, around))]
    edits += [_import(source, package) for package in sorted(speller.imports)]
    edits += leftovers(source.text, edits)
    return Repair(edits, proof.fix == "safe")


def _with_parentheses(span: Span, source: Source) -> Span:
    """The place with the parentheses that close around it, so that none are written twice."""
    before = source.lines[span.line - 1].encode()[: span.column - 1]
    after = source.lines[span.end_line - 1].encode()[span.end_column - 1 :]
    if before.endswith(b"(") and after.startswith(b")"):
        return Span(span.line, span.column - 1, span.end_line, span.end_column + 1)
    return span


def _axis(term: Term) -> dict[str, str]:
    """Over what the one reduction of the term goes; two that differ have no text."""
    given: list[Options] = [p.options for p in term.parts() if p.head in ("sum", "softmax")]
    if any(options != given[0] for options in given):
        raise UnspelledError("reductions over different axes")
    options = {_KEY.get(key, key): str(value) for key, value in (given[0] if given else ())}
    if options.keys() - {"axis", "keepdims"}:
        raise UnspelledError("a reduction with other options")
    if term.head == terms.PRODUCT and options and options.get("keepdims") != "True":
        raise UnspelledError("a sum that is divided by along another axis")
    return options


@dataclass(frozen=True)
class _Reader:
    """Finds the text of a term, as it may stand at a scene."""

    scene: Scene
    source: Source

    def text(self, term: Term) -> str:
        """The text; raises `UnspelledError`."""
        value = term.number
        if value is not None and not math.isfinite(value):
            raise UnspelledError("a number without digits")
        if value is not None:
            return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
        return self._known.get(term) or self._built(term)

    @functools.cached_property
    def _known(self) -> Mapping[Term, str]:
        """Terms and their texts: first the parts of the expression, then variables, then other expressions."""
        found: dict[Term, str] = {}
        for node in self._inside(self.scene.node):
            found.setdefault(self.scene.term(node), self.source.segment(node))
        for name, held in self.scene.scope.values.items():
            if "#" not in name:
                found.setdefault(held, name)
        owner = _owner(self.scene.node, self.source.tree)
        for node in self._inside(owner):
            if node.lineno <= self.scene.node.lineno:
                found.setdefault(self.scene.term(node), self.source.segment(node))
        return found

    def _inside(self, root: ast.AST) -> Iterator[ast.expr]:
        kinds = ast.BinOp | ast.UnaryOp | ast.Call | ast.Subscript | ast.Attribute | ast.Name
        for node in ast.walk(root):
            if isinstance(node, kinds) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                yield node

    def _built(self, term: Term) -> str:
        """A sum, a product or a power of what has a text."""
        if term.head == terms.SUM:
            return self._joined(term.args)
        if term.head == terms.PRODUCT:
            first, *rest = term.args
            if first == terms.MINUS_ONE:
                return f"-{in_parentheses(self.text(terms.product(rest)), place_of('-x'))}"
            texts = [in_parentheses(self.text(a), place_of(_PRODUCT)) for a in term.args]
            return " * ".join(texts)
        if term.head == terms.NAME and "#" not in str(term.value) and "?" not in str(term.value):
            return str(term.value)
        raise UnspelledError(term.head)

    def _joined(self, args: Sequence[Term]) -> str:
        parts = [self.text(args[0])]
        for arg in args[1:]:
            sign, shown = ("-", terms.negative(arg)) if terms.is_negated(arg) else ("+", arg)
            parts.append(f"{sign} {in_parentheses(self.text(shown), place_of(_PRODUCT))}")
        return " ".join(parts)


def _framework(scene: Scene, source: Source) -> str | None:
    """Whose functions the expression calls; of methods alone, whose arrays the module has."""
    called = [n.func for n in ast.walk(scene.node) if isinstance(n, ast.Call)]
    roots = [scene.lifter.full(f, scene.scope).partition(".")[0] for f in called]
    owner = _owner(scene.node, source.tree)
    more = [n.func for n in ast.walk(owner) if isinstance(n, ast.Call)]
    roots += [scene.lifter.full(f, scene.scope).partition(".")[0] for f in more]
    imported = {name.partition(".")[0] for name in source.imported.values()}
    if any(
        isinstance(f, ast.Attribute) and scene.lifter.full(f, scene.scope) == "" for f in called
    ):
        roots = [name for name in _ARRAYS if name in imported] + roots
    roots += [name for name in _ARRAYS if name in imported]
    return next((_plain(root) for root in roots if _plain(root) in FRAMEWORKS), None)


def _plain(root: str) -> str:
    return {"scipy": "numpy"}.get(root, root)


def _owner(node: ast.expr, tree: ast.Module) -> ast.AST:
    """The innermost function that the expression stands in, or the module."""
    span = Span.of(node)
    holders = [
        n for n in of_module(tree)
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
        and (n.lineno, n.col_offset) <= (span.line, span.column)
        and (span.end_line, span.end_column) <= ((n.end_lineno or 0), (n.end_col_offset or 0) + 1)
    ]  # fmt: skip
    return holders[-1] if holders else tree


def _around(node: ast.expr, tree: ast.Module) -> int:
    """How closely what stands around the expression holds it."""
    for parent in of_module(tree):
        if not any(child is node for child in ast.iter_child_nodes(parent)):
            continue
        if isinstance(parent, ast.BinOp | ast.UnaryOp):
            outer = place_of(ast.unparse(parent))
            return outer + (isinstance(parent, ast.BinOp) and parent.right is node)
        return place_of("x") if isinstance(parent, ast.Attribute | ast.Subscript | ast.Await) else 0
    return 0


def _import(source: Source, package: str) -> Edit:
    """A line of its own below the first block of imports."""
    after = 1
    for statement in source.tree.body:
        documents = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Import | ast.ImportFrom) or documents:
            after = (statement.end_lineno or statement.lineno) + 1
        else:
            break
    return Edit(line=after, column=1, end_line=after, end_column=1, text=f"import {package}\n")


def _edit(source: Source, span: Span, text: str) -> Edit:
    def letters(line: int, column: int) -> int:
        written = source.lines[line - 1] if line <= len(source.lines) else ""
        return len(written.encode()[: column - 1].decode(errors="ignore")) + 1

    return Edit(
        line=span.line, column=letters(span.line, span.column), end_line=span.end_line,
        end_column=letters(span.end_line, span.end_column), text=text,
    )  # fmt: skip
