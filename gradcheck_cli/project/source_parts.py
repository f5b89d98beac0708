"""Which lines make a gradient: its definition, the rules attached to it by name, and helpers of these alone."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

Parts = Mapping[int, tuple[range, ...]]


def parts(tree: ast.Module) -> Parts:
    """The lines of what stands at each line that a gradient may be named by: a definition, or a name that is bound."""
    nodes = list(ast.walk(tree))
    definitions = [node for node in nodes if isinstance(node, _Definition)]
    named: dict[str, list[range]] = defaultdict(list)
    for definition in definitions:
        named[definition.name].append(_lines(definition))
    for name, statement, others in _attachments(nodes):
        if name in named:
            attached = [statement, *(lines for other in others for lines in named.get(other, ()))]
            named[name] += [lines for lines in attached if lines not in named[name]]
    helpers = _Helpers.of(nodes, definitions)
    found = {d.lineno: helpers.with_these([_lines(d), *named[d.name]]) for d in definitions}
    for node in nodes:
        if isinstance(node, ast.Assign):
            used = [*_names(node.value), *(t.id for t in node.targets if isinstance(t, ast.Name))]
            lines = [_lines(node), *(part for name in used for part in named.get(name, ()))]
            found.setdefault(node.lineno, helpers.with_these(lines))
    return found


class _Helpers:
    """Functions of a module, each with the lines where its name stands."""

    def __init__(self, used: Mapping[range, Sequence[int]]) -> None:
        self._used = used

    @staticmethod
    def of(nodes: Sequence[ast.AST], definitions: Sequence[_Definition]) -> _Helpers:
        lines: dict[str, list[int]] = defaultdict(list)
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                lines[node.id].append(node.lineno)
        return _Helpers({_lines(d): lines[d.name] for d in definitions if lines[d.name]})

    def with_these(self, lines: Sequence[range]) -> tuple[range, ...]:
        """These lines, and those of functions that are named nowhere else than in them."""
        own: list[range] = []
        more = list(lines)
        while more:
            own += more
            more = [
                helper
                for helper, uses in self._used.items()
                if helper not in own and all(any(use in part for part in own) for use in uses)
            ]
        return tuple(own)


def _attachments(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, range, list[str]]]:
    """A name, where a method of it is given others, and these: `f.defvjp(forward, backward)`, `@f.defjvp`."""
    for node in nodes:
        if isinstance(node, ast.Call) and (owner := _owner(node.func)):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield owner, _lines(node), [name for each in given for name in _names(each)]
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                for part in ast.walk(decorator):  # perhaps in a `partial`
                    if owner := _owner(part):
                        yield owner, _lines(node), []


def _owner(method: ast.AST) -> str | None:
    value = method.value if isinstance(method, ast.Attribute) else None
    return value.id if isinstance(value, ast.Name) else None


def _names(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _lines(node: _Definition | ast.Assign | ast.Call) -> range:
    decorators = [d.lineno for d in node.decorator_list] if isinstance(node, _Definition) else []
    return range(min([node.lineno, *decorators]), (node.end_lineno or node.lineno) + 1)
