"""Which lines make a gradient: its definition, the rules attached to it by name, and helpers of these alone."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINES = "def"  # how the methods begin that attach a rule: `defvjp`, `defjvps`, `def_fwd`


class Parts:
    """The lines of a module's definitions; what belongs to one is looked up where it is asked for."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self._definitions = [node for node in nodes if isinstance(node, _Definition)]
        self._bound = {node.lineno: node for node in nodes if isinstance(node, ast.Assign)}
        self._named = _named(nodes, self._definitions)
        self._helpers = _helpers(nodes, self._definitions)
        self.of = functools.cache(self._of)

    def innermost(self, line: int) -> range:
        """The lines of the definition that the line stands in; of none, nothing."""
        around = (lines for d in self._definitions if line in (lines := _lines(d)))
        return min(around, key=len, default=range(0))

    def _of(self, line: int) -> tuple[range, ...]:
        """The lines of what is defined at a line, or bound to a name there."""
        for definition in self._definitions:
            if definition.lineno == line:
                return self._with_helpers([_lines(definition), *self._named[definition.name]])
        bound = self._bound.get(line)
        if bound is None:
            return ()
        used = [*_names(bound.value), *(t.id for t in bound.targets if isinstance(t, ast.Name))]
        parts = (part for name in used for part in self._named.get(name, ()))
        return self._with_helpers([_lines(bound), *parts])

    def _with_helpers(self, lines: Sequence[range]) -> tuple[range, ...]:
        """These lines, and those of functions that are named nowhere else than in them."""
        own: list[range] = []
        more = list(lines)
        while more:
            own += more
            more = [
                helper
                for helper, uses in self._helpers.items()
                if helper not in own and all(any(use in part for part in own) for use in uses)
            ]
        return tuple(own)


def _named(nodes: Sequence[ast.AST], definitions: Sequence[_Definition]) -> dict[str, list[range]]:
    """The lines that each name of a definition stands for, with what is attached to it."""
    named: dict[str, list[range]] = defaultdict(list)
    for definition in definitions:
        named[definition.name].append(_lines(definition))
    for name, statement, others in _attachments(nodes):
        if name in named:
            attached = [statement, *(lines for other in others for lines in named.get(other, ()))]
            named[name] += [lines for lines in attached if lines not in named[name]]
    return named


def _helpers(
    nodes: Sequence[ast.AST], definitions: Sequence[_Definition]
) -> Mapping[range, Sequence[int]]:
    """Definitions that the module itself names, each with the lines where it does."""
    uses: dict[str, list[int]] = defaultdict(list)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses[node.id].append(node.lineno)
    return {_lines(d): uses[d.name] for d in definitions if d.name in uses}


def _attachments(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, range, list[str]]]:
    """A name, where a method of it is given its rule, and the rule: `f.defvjp(forward, backward)`, `@f.defjvp`."""
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
    """The name whose method this is, if it is one that attaches a rule."""
    if not isinstance(method, ast.Attribute) or not method.attr.startswith(_DEFINES):
        return None
    return method.value.id if isinstance(method.value, ast.Name) else None


def _names(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _lines(node: _Definition | ast.Assign | ast.Call) -> range:
    decorators = [d.lineno for d in node.decorator_list] if isinstance(node, _Definition) else []
    return range(min([node.lineno, *decorators]), (node.end_lineno or node.lineno) + 1)
