"""Comments of a source: beside parameters and fields, above definitions, and those that speak for a whole module."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Sequence

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# `te > 0, ies > iis > 0`: numbers and names between signs, and not a word more.
_TERM = r"[-+]?[\w.]+(?:[eE][-+]?\d+)?"
_BOUND = rf"{_TERM}(?:\s*(?:>=|<=|[<>≤≥])\s*{_TERM})+"
_BOUNDS_ALONE = re.compile(rf"(?:all\s+)?{_BOUND}(?:\s*(?:,|\band\b)\s*(?:and\s+)?{_BOUND})*")


def of_function(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: Sequence[str]) -> str:
    """Comments beside the parameters, as entries; those above the function and at the top of its body."""
    first, body = first_line(function), function.body
    documented = ast.get_docstring(function, clean=False) is not None
    start = (body[0].end_lineno or body[0].lineno) + 1 if documented else body[0].lineno
    end = body[1].lineno if documented and len(body) > 1 else body[0].lineno
    spoken = by_line(lines, function.lineno, max(start, end))
    beside: dict[int, list[str]] = {}
    for argument in arguments_of(function):
        beside.setdefault(argument.lineno, []).append(argument.arg)
    # A comment in the line of `def` is about all, unless each parameter has a line of its own.
    one_each = len(beside) > 1 and all(len(names) == 1 for names in beside.values())
    entries = [f"{', '.join(beside[n])}: {spoken[n]}" for n in beside if n in spoken and len(beside[n]) == 1 and (one_each or n != function.lineno)]  # fmt: skip
    header_end = max([function.lineno, *(a.end_lineno or 0 for a in arguments_of(function))])
    inside = [
        spoken[n] for n in sorted(spoken) if n > header_end and n not in beside and _alone(lines, n)
    ]
    said = [*above_line(first, lines), *entries, *inside]
    return "\n".join(line for line in said if not line.startswith("cgcheck"))


def of_fields(scope: ast.ClassDef, lines: Sequence[str]) -> str:
    """The comments beside the annotated fields of a class, as entries."""
    spoken = by_line(lines, scope.lineno, scope.end_lineno or len(lines))
    fields = [n for n in scope.body if isinstance(n, ast.AnnAssign)]
    return "\n".join(
        f"{ast.unparse(n.target)}: {spoken[n.lineno]}" for n in fields if n.lineno in spoken
    )


def of_class(scope: ast.ClassDef, lines: Sequence[str]) -> str:
    """The comments above a class, and those above the first definition in it."""
    first = next((n for n in scope.body if isinstance(n, SCOPES)), scope.body[0])
    until = first_line(first) if isinstance(first, SCOPES) else first.lineno
    inside = (lines[n - 1].strip() for n in range(scope.body[0].lineno, until))
    header = (lines[n - 1].strip() for n in range(scope.lineno + 1, scope.body[0].lineno))
    said = [*above_line(first_line(scope), lines), *_marked([*header, *inside])]
    return "\n".join(dict.fromkeys(line for line in said if not line.startswith("cgcheck")))


def conventions(tree: ast.Module, lines: Sequence[str]) -> str:
    """The bounds that comments above all definitions of a module state, in sentences that state nothing else."""
    first = next((first_line(n) for n in tree.body if isinstance(n, SCOPES)), len(lines) + 1)
    above = [line for line in lines[: first - 1] if line.startswith("#")]
    attached = above_line(first, lines)
    spoken = [line.lstrip("#!: ").strip() for line in above[: len(above) - len(attached)]]
    sentences = re.split(r"[;\n]|\.(?=\s|$)", "\n".join(spoken))
    return "; ".join(
        s.strip() for s in sentences if s.strip() and _BOUNDS_ALONE.fullmatch(s.strip())
    )


def above_line(first: int, lines: Sequence[str]) -> list[str]:
    """The comments right above a line."""
    above: list[str] = []
    for number in range(first - 1, 0, -1):
        line = lines[number - 1].strip()
        if not line.startswith("#"):
            break
        above.insert(0, line.lstrip("#!: "))
    return above


def by_line(lines: Sequence[str], first: int, last: int) -> dict[int, str]:
    """The comments from one line to another, by line."""
    source = "".join(lines[first - 1 : last])
    comments: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                comments[first - 1 + token.start[0]] = token.string.lstrip("#: ")
    except (tokenize.TokenError, SyntaxError):
        pass  # the piece ends inside a statement
    return comments


def _marked(lines: Sequence[str]) -> list[str]:
    """What stands in the lines that are comments."""
    return [line.lstrip("#! ") for line in lines if line.startswith("#")]


def _alone(lines: Sequence[str], number: int) -> bool:
    return lines[number - 1].lstrip().startswith("#")


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs]


def first_line(scope: Scope) -> int:
    return min([scope.lineno, *(d.lineno for d in scope.decorator_list)])
