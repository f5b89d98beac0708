"""A stable derivative written into the user's rule: in their names, with what has to be saved for it and imported.

Only rules of one argument, whose text shows where the cotangent comes in, what is kept of the forward pass and where
the gradient goes out. Whoever writes it checks the file again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.rule_text import Function, own_nodes, returned_by, rules_in
from gradcheck_cli.judge.source.source_file import (
    SourceFile,
    first_statement,
    inserted,
    method_beside,
)
from gradcheck_cli.project.leftovers import leftovers
from gradcheck_cli.subject.protocol import CustomGradient, LibraryFunction

_COTANGENT = "ct"  # as a library spells it
_OF_DEFJVPS = 3  # parameters of a rule of one argument: tangent, result, argument
_VJP, _JVP, _TORCH = "custom_vjp", "custom_jvp", "Function"


@dataclass(frozen=True, slots=True)
class Transplant:
    """The derivative in the user's names, and the edits that write it, the gradient's own first."""

    text: str
    edits: Sequence[Edit]


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule's text: where the gradient goes out, what the cotangent is called, and what the argument is, if it is kept."""

    gradient: ast.expr
    cotangent: str
    argument: str
    saving: Sequence[Edit] = ()


def transplanted(gradient: CustomGradient, stable: LibraryFunction) -> Transplant | None:
    """The derivative of a stable function in place of what the rule returns; None where the text does not show how."""
    learned = [p.name for p in gradient.parameters() if p.differentiable]
    functions = list(gradient.rule_code())
    if len(learned) != 1 or not functions:
        return None
    file = SourceFile.of(functions[0].__code__.co_filename)
    rule = _rule(gradient.kind, functions, learned[0], file)
    if rule is None:
        return None
    names = _Modules(functions[0].__globals__, stable.scope, file)
    text = names.spelled(
        _renamed(stable.gradient, {_COTANGENT: rule.cotangent, learned[0]: rule.argument})
    )
    own, *others = [file.edit(rule.gradient, text), *rule.saving, *names.imports]
    # What goes comes before what is written in its place.
    edits = [own, *leftovers("".join(file.lines), [own, *others]), *others]
    return Transplant(text, edits) if file.parses_with(edits) and not names.lost else None


def _rule(
    kind: str, functions: Sequence[FunctionType], name: str, file: SourceFile
) -> _Rule | None:
    trees = [tree_of(function) for function in functions]
    first = trees[0]
    if first is None:
        return None
    if kind == _VJP:
        return _of_vjp(first, trees[1] if len(trees) > 1 else None, name, file)
    if kind == _TORCH:
        return _of_torch(first, name, file)
    if kind == _JVP:
        return _of_jvp(first)
    rule = rules_in(first)[0]
    own = rule.args.args or rule.args.kwonlyargs  # Keras: `def grad(*args, upstream=None)`
    if rule is first or not own:
        return None
    return _made(rule, own[0].arg, name)  # it sees the argument itself


def _made(
    rule: Function, cotangent: str, argument: str, saving: Sequence[Edit] = ()
) -> _Rule | None:
    """The rule, if it returns one gradient at one place."""
    returned = [
        part
        for whole in returned_by(rule, apart=False)
        for part in (whole.elts if isinstance(whole, (ast.Tuple, ast.List)) else [whole])
    ]
    if len(returned) != 1:
        return None
    return _Rule(returned[0], cotangent, argument, saving)


def _of_vjp(bwd: Function, fwd: Function | None, name: str, file: SourceFile) -> _Rule | None:
    """The argument is what the forward function keeps of it; if it does not, it is kept beside the rest."""
    own = [a.arg for a in bwd.args.args]
    pairs = [] if fwd is None else returned_by(fwd, apart=False)
    pair = pairs[0] if len(pairs) == 1 else None
    if len(own) < 2 or fwd is None or not isinstance(pair, ast.Tuple) or len(pair.elts) != 2:
        return None
    kept, residuals, cotangent = pair.elts[1], own[-2], own[-1]
    if _is_name(kept, name):
        return _made(bwd, cotangent, residuals)
    argument = _unpacked(bwd, residuals, kept, name)
    if argument is not None:
        return _made(bwd, cotangent, argument)
    taken = {*own, *(n.id for n in ast.walk(bwd) if isinstance(n, ast.Name))}
    if name in taken or name not in {a.arg for a in ast.walk(fwd.args) if isinstance(a, ast.arg)}:
        return None
    return _kept_instead(bwd, kept, name, file) or _kept_beside(bwd, kept, name, file)


def _kept_instead(bwd: Function, kept: ast.expr, name: str, file: SourceFile) -> _Rule | None:
    """The argument in place of what was kept, which only the gradient read as it was: then the rule takes the argument."""
    *_, residuals, cotangent = bwd.args.args
    rule = _made(bwd, cotangent.arg, name)
    named = {a.arg for a in ast.walk(bwd.args) if isinstance(a, ast.arg)}
    if rule is None or residuals.annotation is not None or name in named or _is_shared(bwd, file):
        return None
    inside = {id(node) for node in ast.walk(rule.gradient)}
    if any(_is_name(n, residuals.arg) and id(n) not in inside for n in ast.walk(bwd)):
        return None
    saving = [file.edit(kept, name), file.edit(residuals, name)]
    return replace(rule, saving=saving)


def _is_shared(rule: Function, file: SourceFile) -> bool:
    """Is it named more than once in its file? Then others may call it as it was."""
    own = "" if isinstance(rule, ast.Lambda) else rule.name
    module = ast.parse("".join(file.lines))
    return sum(isinstance(n, ast.Name) and n.id == own for n in ast.walk(module)) > 1


def _kept_beside(bwd: Function, kept: ast.expr, name: str, file: SourceFile) -> _Rule | None:
    """The argument beside what is kept already, unpacked in a line of its own."""
    residuals, cotangent = (a.arg for a in bwd.args.args[-2:])
    if isinstance(bwd, ast.Lambda):
        return None
    first = first_statement(bwd)
    decorated = isinstance(first, (ast.FunctionDef, ast.ClassDef)) and bool(first.decorator_list)
    if first.lineno == bwd.lineno or decorated:
        return None  # no line of its own can stand before it
    saving = [
        file.edit(kept, f"({file.text(kept)}, {name})"),
        file.before(first, f"{residuals}, {name} = {residuals}"),
    ]
    return _made(bwd, cotangent, name, saving)


def _of_torch(backward: Function, name: str, file: SourceFile) -> _Rule | None:
    """The argument is a saved tensor; if it is not, it is saved beside the others."""
    own = [a.arg for a in backward.args.args]
    forward = method_beside(backward, "forward", file)
    if len(own) != 2 or forward is None or isinstance(backward, ast.Lambda):
        return None
    saves = [
        node
        for node in own_nodes(forward)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "save_for_backward"
    ]
    opened = [
        node.targets[0]
        for node in own_nodes(backward)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "saved_tensors"
        and isinstance(node.targets[0], (ast.Tuple, ast.List))
    ]
    if len(saves) != 1 or len(opened) != 1 or len(saves[0].args) != len(opened[0].elts):
        return None
    for given, target in zip(saves[0].args, opened[0].elts, strict=True):
        if _is_name(given, name) and isinstance(target, ast.Name):
            return _made(backward, own[1], target.id)
    if name in {n.id for n in ast.walk(backward) if isinstance(n, ast.Name)} or not saves[0].args:
        return None
    last = opened[0].elts[-1]
    saving = [file.after(saves[0].args[-1], f", {name}"), file.after(last, f", {name}")]
    return _made(backward, own[1], name, saving)


def _of_jvp(rule: Function) -> _Rule | None:
    """Primals and tangents, each unpacked into one name; the tangent is what the rule returns last.

    Of `defjvps` it is all that is returned: `lambda t, y, x: …`.
    """
    own = [a.arg for a in rule.args.args]
    if len(own) == _OF_DEFJVPS:
        return _made(rule, own[0], own[2])
    if len(own) != 2:
        return None
    argument, tangent = (_only_part(rule, whole) for whole in own)
    pairs = returned_by(rule, apart=False)
    pair = pairs[0] if len(pairs) == 1 else None
    if (
        argument is None
        or tangent is None
        or not isinstance(pair, ast.Tuple)
        or len(pair.elts) != 2
    ):
        return None
    return _Rule(pair.elts[1], tangent, argument)


def _only_part(rule: Function, whole: str) -> str | None:
    """The name that `(x,) = primals` gives, or `(x,), (dx,) = primals, tangents`."""
    for target, value in _assigned(rule):
        match target, value:
            case ast.Tuple(elts=[ast.Name(id=part)]), ast.Name(id=name) if name == whole:
                return part
    return None


def _assigned(rule: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned to what; of tuples that are assigned to each other, part by part."""
    for node in own_nodes(rule):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=left)], value=ast.Tuple(elts=right)):
                yield from zip(left, right, strict=False)
            case ast.Assign(targets=[target], value=value):
                yield target, value


def _unpacked(rule: Function, whole: str, kept: ast.expr, name: str) -> str | None:
    """What a rule calls the argument that stands among what was kept."""
    places = kept.elts if isinstance(kept, ast.Tuple) else []
    for node in own_nodes(rule):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Name(id=given)):
                if given == whole and len(parts) == len(places):
                    for part, place in zip(parts, places, strict=True):
                        if _is_name(place, name) and isinstance(part, ast.Name):
                            return part.id
    return None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """An expression with other names."""
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)


@dataclass
class _Modules:
    """How a file names modules, and what it has to import for the rest."""

    around: Mapping[str, Any]  # the file's globals
    scope: Mapping[str, Any]  # modules by the names that a library's text has for them
    file: SourceFile
    imports: list[Edit] = field(default_factory=list)
    lost: bool = False  # one of them can be imported nowhere

    def spelled(self, text: str) -> str:
        """An expression with the modules as the file names them."""
        own = {
            name: self._own(name, module)
            for name, module in self.scope.items()
            if re.search(rf"\b{name}\.", text)
        }
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in own:
                node.id = own[node.id]
        return ast.unparse(tree)

    def _own(self, name: str, module: ModuleType) -> str:
        bound = [n for n, value in self.around.items() if value is module]
        if bound:
            return bound[0]
        parent, _, leaf = module.__name__.rpartition(".")
        above = [
            n for n, v in self.around.items() if isinstance(v, ModuleType) and v.__name__ == parent
        ]
        if above and getattr(self.around[above[0]], leaf, None) is module:
            return f"{above[0]}.{leaf}"
        line = self._import(name, module)
        if line is None:
            self.lost = True
        else:
            self.imports.append(line)
        return name

    def _import(self, name: str, module: ModuleType) -> Edit | None:
        """A line behind the last import of the file; None if it has none."""
        parent, _, leaf = module.__name__.rpartition(".")
        text = f"import {module.__name__} as {name}"
        if name == module.__name__:
            text = f"import {name}"
        elif leaf == name:
            text = f"from {parent} import {name}"
        body = ast.parse("".join(self.file.lines)).body
        last = [
            n.end_lineno or n.lineno for n in body if isinstance(n, (ast.Import, ast.ImportFrom))
        ]
        if not last or not self.file.lines[max(last) - 1].endswith("\n"):
            return None
        return inserted(max(last) + 1, 1, f"{text}\n")
