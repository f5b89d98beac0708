"""What the names of a module hold: imports, short functions, settings with their defaults, and variables."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from gradcheck_cli.lint import terms
from gradcheck_cli.lint.nodes import of_module, walk
from gradcheck_cli.lint.terms import SETTING, Term

_SMALL = ("eps", "tiny", "epsilon", "floor", "jitter", "delta", "margin")
_LARGEST_SMALL, _KEEPS_OFF = 1e-2, 1e-5
_FACTOR = re.compile(r"scale|temperature|temp|tau|factor|gain", re.IGNORECASE)
_LONGEST = 12  # statements of a function that is looked into


@dataclass(slots=True)
class Scope:
    """What names hold, in one function or module."""

    values: dict[str, Term]
    compared: tuple[Term, ...] = ()
    without_gradient: bool = False
    returned: Term | None = None

    def inner(self) -> Scope:
        return Scope(dict(self.values), self.compared, self.without_gradient)


def setting(name: str, default: float, unknown: Term) -> Term | None:
    """A small number is what it is by default; a factor is a name of about that size; of others nothing is known.

    What is smaller than any quantity keeps something off, whatever its name: a `margin` of 1e-6.
    """
    small = any(word in name.lower() for word in _SMALL) and abs(default) <= _LARGEST_SMALL
    if default and (small or 0 < default <= _KEEPS_OFF):
        return terms.number(default)
    if _FACTOR.search(name):
        return terms.call(SETTING, unknown, terms.number(default))
    return None


def settings(node: ast.ClassDef) -> dict[str, Term]:
    """What an object's settings are by default: `floor: float = 1e-4`, `self.temperature = 0.1`."""
    found: dict[str, Term] = {}
    defaults: dict[str, float] = {}
    for function in (
        s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"
    ):
        given = [*function.args.posonlyargs, *function.args.args]
        args = given[len(given) - len(function.args.defaults) :]
        pairs = zip(args, function.args.defaults, strict=True)
        defaults |= {a.arg: v for a, d in pairs if (v := plain_number(d)) is not None}
    for statement in walk(node):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name, value = statement.target.id, plain_number(statement.value)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
            name, value = statement.targets[0].attr, plain_number(statement.value)
            if isinstance(statement.value, ast.Name):
                value = defaults.get(statement.value.id)
        else:
            continue
        known = None if value is None else setting(name, value, terms.name(f"self.{name}"))
        if known is not None:
            found[f"self.{name}"] = known
    return found


def short_functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Functions of a few statements that go straight to their one result."""
    loops = (ast.For, ast.While, ast.If, ast.Try, ast.With)
    return {
        f.name: f
        for f in tree.body
        if isinstance(f, ast.FunctionDef) and not f.decorator_list and len(f.body) <= _LONGEST
        and not any(isinstance(s, loops) for s in f.body)
    }  # fmt: skip


def imports(tree: ast.Module) -> tuple[dict[str, str], list[str]]:
    """What imported names stand for, and the modules of which all names are imported."""
    found: dict[str, str] = {}
    stars: list[str] = []
    for node in of_module(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                found[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if alias.name == "*":
                    stars.append(node.module)
                else:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found, stars


def own_classes(tree: ast.Module) -> dict[str, str]:
    """Classes of the module, by names that no library has: what they have are functions, and no methods of an array."""
    return {node.name: f".{node.name}" for node in tree.body if isinstance(node, ast.ClassDef)}


def plain_number(node: ast.expr | None) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = plain_number(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
