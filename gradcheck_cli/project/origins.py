"""What the names of a module stand for, followed through the files of its project."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradcheck_cli.project.framework_marks import LIBRARIES
from gradcheck_cli.project.module_files import absolute, module_name, source_below

_FURTHEST = 5  # imports that one name is followed through
_Definition = ast.FunctionDef | ast.ClassDef | ast.expr


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a name leads: to a library, by its whole name there, or to a definition in the project."""

    full: str
    definition: _Definition | None = None
    names: Names | None = None  # of the module that holds the definition


@dataclass(frozen=True)
class Names:
    """The names of one module: what it imports, and what it defines at its top."""

    imported: Mapping[str, str]
    own: Mapping[str, _Definition]
    root: Path | None = None  # where the modules of its project are imported from
    # What else it calls a name, if it binds that nowhere else: `F = torch.autograd.Function`.
    aliases: Mapping[str, ast.expr] = field(default_factory=dict)

    def full(self, node: ast.AST, furthest: int = _FURTHEST) -> str:
        """The dotted name with imports resolved, and other names that the module gives them; or an empty string."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        stands_for = self.imported.get(node.id, "")
        if not stands_for and furthest and node.id in self.aliases:
            stands_for = self.full(self.aliases[node.id], furthest - 1)
        return ".".join([stands_for, *reversed(parts)])

    def origin(self, node: ast.AST) -> Origin:
        """Where an expression that is a name leads."""
        return self._follow(self.full(node), _FURTHEST)

    def _follow(self, full: str, furthest: int) -> Origin:
        parts = full.split(".")
        if self.root is None or not furthest or not all(parts) or parts[0] in LIBRARIES:
            return Origin(full)
        for cut in range(len(parts) - 1, 0, -1):
            path = source_below(self.root, ".".join(parts[:cut]))
            if path is not None:
                return names_in(path)._named(parts[cut:], furthest - 1)
        return Origin(full)

    def _named(self, parts: Sequence[str], furthest: int) -> Origin:
        """Where a name of this module leads, with the attributes after it."""
        first, *rest = parts
        if first in self.imported:
            return self._follow(".".join([self.imported[first], *rest]), furthest)
        definition = self.own.get(first)
        if isinstance(definition, (ast.Name, ast.Attribute)) and not rest:
            return self._follow(self.full(definition), furthest)
        return Origin("", None if rest else definition, self)


def names_of(tree: ast.Module, path: Path | None = None) -> Names:
    """What the names of this module's source stand for; without a path, imports are not followed."""
    own: dict[str, _Definition] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own[node.name] = node
        elif isinstance(node, ast.Assign):
            own |= {t.id: node.value for t in node.targets if isinstance(t, ast.Name)}
    root = None if path is None else module_name(path)[0]
    return Names(dict(imports(tree, path)), own, root, _aliases(tree, own))


def _aliases(tree: ast.Module, own: Mapping[str, _Definition]) -> dict[str, ast.expr]:
    """The names at the top of a module that are other names, and that nothing in it binds once more."""
    found = {n: d for n, d in own.items() if isinstance(d, (ast.Name, ast.Attribute))}
    bound: Counter[str] = Counter()
    for node in ast.walk(tree) if found else ():
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        elif isinstance(node, ast.arg):
            bound[node.arg] += 1
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound[node.name] += 1
    return {name: value for name, value in found.items() if bound[name] == 1}


def imports(tree: ast.Module, path: Path | None) -> Iterator[tuple[str, str]]:
    """Each imported name and what it stands for: `eqx` is `equinox`, `cv` is `jax.custom_vjp`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)
        elif isinstance(node, ast.ImportFrom) and (path is not None or not node.level):
            module = absolute(path or Path(), node.module or "", node.level)
            for alias in node.names if module else ():
                yield alias.asname or alias.name, f"{module}.{alias.name}"


@functools.cache
def names_in(path: Path) -> Names:
    """The names of the module in this file; none, where it cannot be read."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return Names({}, {})
    return names_of(tree, path)
