"""A change of a rule's text as an edit of its file: only what changes is written anew, in the author's own spelling."""

from __future__ import annotations

import ast
import copy
import itertools
import linecache
from collections.abc import Iterator, Sequence
from types import FunctionType

from gradcheck_cli.contract import report
from gradcheck_cli.judge.repair.edits import Edit
from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.rule_text import Function
from gradcheck_cli.judge.source.span import Span
from gradcheck_cli.project.edits import applied

_PLACE = "_cgcheck_{}_"  # stands for what the author wrote, while the rest is spelled
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)


def patch(change: Edit, function: FunctionType) -> report.Edit | None:
    """What to write where; None where no spelling reads back as the change."""
    lines = linecache.getlines(function.__code__.co_filename)
    own = tree_of(function)
    if own is None:
        return None
    written = _Written(lines, own)
    for text in written.spellings(change.after):
        edit = written.edit(change.before, text)
        if written.reads_as(edit, change.tree):
            return edit
    return None


class _Written:
    """A file as its author wrote it, with one of its functions."""

    def __init__(self, lines: Sequence[str], function: Function) -> None:
        self._lines = lines
        self._function = function
        self._own = {id(node) for node in ast.walk(function)}

    def spellings(self, new: ast.expr) -> Iterator[str]:
        """The text of an expression, with as few parentheses as may do first."""
        kept: dict[str, ast.expr] = {}
        sketch = ast.unparse(self._sketch(new, kept))
        for inside, outside in itertools.product((False, True), repeat=2):
            text = sketch
            for name, node in kept.items():
                text = text.replace(name, self._segment(node, closed=inside))
            yield f"({text})" if outside else text

    def edit(self, old: ast.expr | ast.stmt, text: str) -> report.Edit:
        """The text in the place of an expression, in lines and columns as reports have them."""
        span = Span.of(old, self._lines)
        return report.Edit(
            line=span.line,
            column=span.column,
            end_line=span.end_line,
            end_column=span.end_column,
            text=text,
        )

    def reads_as(self, edit: report.Edit, tree: Function) -> bool:
        """Is the function this one, once the edit is made?"""
        try:
            module = ast.parse(applied("".join(self._lines), [edit]))
        except (SyntaxError, ValueError):
            return False
        wanted = ast.dump(tree)
        here = (self._function.lineno, self._function.col_offset)
        return any(
            ast.dump(node) == wanted
            for node in ast.walk(module)
            if type(node) is type(tree) and (node.lineno, node.col_offset) == here
        )

    def _sketch(self, new: ast.expr, kept: dict[str, ast.expr]) -> ast.expr:
        """The expression with names in place of what the author wrote, which are kept."""
        if id(new) in self._own:
            name = _PLACE.format(len(kept))
            kept[name] = new
            return ast.Name(name, ast.Load())
        sketch = copy.copy(new)
        for field, value in ast.iter_fields(new):
            if isinstance(value, ast.expr):
                setattr(sketch, field, self._sketch(value, kept))
            elif isinstance(value, list):
                setattr(sketch, field, [self._sketched(item, kept) for item in value])
        return sketch

    def _sketched(self, item: object, kept: dict[str, ast.expr]) -> object:
        match item:
            case ast.expr():
                return self._sketch(item, kept)
            case ast.keyword(arg=name, value=value):
                return ast.keyword(name, self._sketch(value, kept))
        return item

    def _segment(self, node: ast.expr, *, closed: bool) -> str:
        """The text of an expression; in parentheses, if it may need them."""
        text = ast.get_source_segment("".join(self._lines), node) or ast.unparse(node)
        return f"({text})" if closed and not isinstance(node, _ATOMS) else text
