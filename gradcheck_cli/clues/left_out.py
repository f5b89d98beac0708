"""What a text compares a table with: integers that stand for something else, and the table's own rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import plain_function, texts_about
from gradcheck_cli.clues.prose.passages import passages, plain
from gradcheck_cli.clues.source_text.statements import nodes_of
from gradcheck_cli.clues.source_text.tree import LIBRARIES, last_word, text_of

_TURNED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
_BELOW = {(0, ast.Lt), (0, ast.GtE), (-1, ast.Gt), (-1, ast.LtE), (-1, ast.Eq), (-1, ast.NotEq)}
# With a meaning: `-1 mutes the track`, `-1 = padding`, `padded with -1`; not an axis, and nothing that is forbidden.
_MINUS_ONE = re.compile(
    r"(?<![\w)\]=,.-])(?<!axis )(?<!dim )(?<!never )(?<!not )(?<!no )-1[`'\"]*"
    r"(?=\s*(?:=|:|\()|\s+(?:marks?|for|where|if|as|stands?|means?|is(?!\s+not)|are(?!\s+not)|[a-z]{3,}s)\b)"
    r"|\b(?:padd(?:ed|ing)|filled|marked|masked|missing|unused|muted|ignored|absent|none)\b[^.;,]{0,20}[\s(`=:]-1(?!\w|\.\d)",
    re.IGNORECASE,
)
# What is said of integers that name no place, or stand for none.
_OUTSIDE = re.compile(
    r"\b(?:outside|out[ -]of[ -](?:range|bounds)|beyond|padd(?:ed|ing)|pad|ignored|dropped|discarded|skipped|left out|unassigned|unused|sentinel"
    r"|invalid|missing|masked|absent|no (?:group|segment|cluster|parent|neighbou?r|one)|none|falls? off|vanish\w*|lost)\b",
    re.IGNORECASE,
)
# Characters behind a name in a sentence: what stands farther off is about something else.
_FAR = 120
_BOUNDS = frozenset(
    {"less", "less_equal", "greater", "greater_equal", "lt", "le", "gt", "ge", "eq", "ne", "equal", "not_equal", "isin"}
    | {"clip", "clamp", "clip_by_value", "minimum", "maximum", "remainder", "mod", "floormod", "logical_not"}
)  # fmt: skip
_DROPS = ("drop", "fill")  # as JAX calls what it does with places outside
_COUNTS = frozenset({"unique", "unique_with_counts", "bincount"})
_ADDS = frozenset(
    {
        "segment_sum",
        "unsorted_segment_sum",
        "index_add",
        "index_add_",
        "scatter_add",
        "scatter_add_",
    }
)
_ONES = frozenset({"ones", "ones_like", "new_ones"})
_COMPARES = frozenset({"eq", "ne", "equal", "not_equal"})
_SIZES = frozenset({"shape", "size", "ndim", "dtype"})


def marked_below_zero(
    functions: Sequence[Callable[..., Any]], names: Collection[str]
) -> frozenset[str]:
    """As `clicked` in `where(clicked < 0, …)` and `not_equal(ticks, UNKNOWN)`: what the text asks about numbers below zero."""
    texts = (text for text in map(text_of, functions) if text is not None)
    nodes = nodes_of(texts)
    marks = {mark for function in functions for mark in _marks_of(function)}
    return frozenset(name for node in nodes for name in _asked_below(node, marks)) & set(names)


def _marks_of(function: Callable[..., Any]) -> list[str]:
    """What the module of a function calls -1: `UNKNOWN = -1`."""
    known = getattr(plain_function(function), "__globals__", {})
    return [n for n, v in list(known.items()) if n.isupper() and type(v) is int and v == -1]


def told_below_zero(function: Callable[..., Any], names: Sequence[str]) -> frozenset[str]:
    """As `bus`, of which an entry says `-1 mutes the track`, or `MUTED for none` where the module has that for -1."""
    marks = _marks_of(function)
    called = re.compile(rf"`*\b(?:{'|'.join(map(re.escape, marks))})\b`*") if marks else None
    near = [plain(text.text) for text in texts_about(function) if text.near]
    near = [text if called is None else called.sub("-1", text) for text in near]
    entries = {n: [p.after for t in near for p in passages(t, n, names) if p.entry] for n in names}
    return frozenset(n for n, said in entries.items() if any(map(_MINUS_ONE.search, said)))


def outside(
    functions: Sequence[Callable[..., Any]], names: Collection[str], about: Callable[..., Any]
) -> frozenset[str]:
    """Tables that may hold integers which name no place: the text compares them, drops such places, or speaks of them."""
    texts = [text for text in map(text_of, functions) if text is not None]
    nodes = nodes_of(texts)
    drops = any(n.arg == "mode" and _value(n.value) in _DROPS for n in nodes if isinstance(n, ast.keyword))  # fmt: skip
    compared = {side.id for n in nodes for side in _bounded(n) if isinstance(side, ast.Name)}
    near = [plain(text.text) for text in texts_about(about) if text.near]
    spoken = {n: [p for t in near for p in passages(t, n, list(names))] for n in names}
    told = {n for n, all_ in spoken.items() for p in all_ if _OUTSIDE.search(p.after if p.entry else p.after[:_FAR])}  # fmt: skip
    return frozenset(names if drops else (compared | told) & set(names))


def _bounded(node: ast.AST) -> Iterator[ast.expr]:
    """What is compared, or kept within bounds: `ids < n`, `jnp.less(ids, n)`, `ids.clamp(max=n - 1)`, `ids % n`."""
    match node:
        case ast.Compare(left=left, comparators=others):
            yield from (left, *others)
        case ast.BinOp(left=left, op=ast.Mod()):
            yield left
        case ast.Call(func=called, args=args) if last_word(called) in _BOUNDS:
            yield from args
            if isinstance(called, ast.Attribute):
                yield called.value


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _asked_below(node: ast.AST, marks: Collection[str]) -> Iterator[str]:
    """The name that is compared with 0 or -1, or with one of these `marks` for that, so that only a number below zero makes a difference."""
    match node:
        case ast.Compare(left=table, ops=[op], comparators=[number]):
            kind = type(op)
        case ast.Call(func=called, args=[table, number]) if last_word(called) in _COMPARES:
            kind = ast.Eq
        case _:
            return
    if _is_constant(table) or (isinstance(table, ast.Name) and table.id in marks):
        table, number, kind = number, table, _TURNED.get(kind, kind)
    if isinstance(table, ast.Name) and (_number(number, marks), kind) in _BELOW:
        yield table.id


def _number(node: ast.expr, marks: Collection[str]) -> int | float | None:
    """The number that is written there; -1 for what the module calls so."""
    if isinstance(node, ast.Name):
        return -1 if node.id in marks else None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, int | float) else None


def left_out(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> frozenset[str]:
    """The parameters that a table is compared with, one by one, for places that do not count.

    As `void` in `labels != void` and `ops.not_equal(labels, void)`: whatever has no value of its own there.
    """
    texts = (text for text in map(text_of, functions) if text is not None)
    nodes = nodes_of(texts)
    pairs = [pair for node in nodes for pair in _pairs(node)]
    found = {right.id for _, right in pairs if isinstance(right, ast.Name)}
    return frozenset(found & set(names))


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is compared with what, for equality; both ways, but nothing that is a constant."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        sides = [node.left, node.comparators[0]]
    elif isinstance(node, ast.Call) and len(node.args) == 2 and last_word(node.func) in _COMPARES:
        sides = node.args
    else:
        return
    if not any(_is_constant(side) for side in sides):
        yield sides[0], sides[1]
        yield sides[1], sides[0]


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def paired(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> frozenset[str]:
    """The parameters of which each row is asked whether it is the same as another one, or how many are: it may be alone."""
    texts = (text for text in map(text_of, functions) if text is not None)
    nodes = nodes_of(texts)
    return frozenset(n for node in nodes for n in (*_with_itself(node), *_counted(node))) & set(
        names
    )


def _counted(node: ast.AST) -> Iterator[str]:
    """The array whose equal entries a call counts: `unique(labels)`, `segment_sum(ones_like(x), labels)`."""
    if not isinstance(node, ast.Call):
        return
    name = last_word(node.func)
    if name in _COUNTS and node.args:
        yield _only_name(node.args[0])
    elif name in _ADDS and any(_is_of_ones(each) for each in node.args):
        yield from (_only_name(each) for each in node.args if not _is_of_ones(each))


def _is_of_ones(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_word(node.func) in _ONES


def _with_itself(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        sides, same = [node.left, node.comparators[0]], isinstance(node.ops[0], ast.Eq | ast.NotEq)
    elif isinstance(node, ast.Call):
        sides, same = _sides(node), last_word(node.func) in _COMPARES
    else:
        return
    left, *right = [_only_name(side) for side in sides] or [""]
    turned = len({ast.dump(side) for side in sides}) > 1  # `x == x` asks for NaN
    if same and left and [left] == right and turned:
        yield left


def _sides(call: ast.Call) -> list[ast.expr]:
    """What a call compares: its arguments, or a method's own array and its argument."""
    if len(call.args) == 1 and isinstance(call.func, ast.Attribute):
        return [call.func.value, call.args[0]]
    return list(call.args) if len(call.args) == 2 else []


def _only_name(side: ast.expr) -> str:
    """The one array that it is made of; nothing where other names are beside it."""
    nodes = list(ast.walk(side))
    found = {n.id for n in nodes if isinstance(n, ast.Name)} - LIBRARIES
    of_sizes = any(isinstance(n, ast.Attribute) and n.attr in _SIZES for n in nodes)
    return found.pop() if len(found) == 1 and not of_sizes else ""
