"""Whether a function speaks of rows of a mask that are empty: in words, or by what it does about them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.source_text.statements import nodes_of
from gradcheck_cli.clues.source_text.tree import last_word, text_of

_ROWS = r"(?:rows?|sequences?|samples?|groups?|quer(?:y|ies)|days?|sets?|lists?|batch(?:es)?|users?|masks?|them)"
_PROMISED = re.compile(
    rf"\bat least (?:one|1|two|2)(?: \w+)? (?:per|in each|in every|of each) \w+"
    rf"|\b(?:every|each) \w+ (?:has|holds|contains|keeps) (?:at least )?(?:one|some|two)\b(?! padding)"
    rf"|\bno {_ROWS} (?:is|are) (?:ever )?(?:all |entirely |fully |completely )?(?:empty|masked|false)\b"
    r"|\bnever (?:all|entirely|fully|completely)?\s*(?:masked|false|empty)\b",
    re.IGNORECASE,
)
_TOLD = re.compile(
    rf"\b(?:empty|fully masked|entirely masked|all masked|no valid)\b|\b{_ROWS} (?:without|with no)\b|\bwithout (?:any|a) \w+",
    re.IGNORECASE,
)
# What keeps a count from zero, asks for one, or takes away what comes of none.
_GUARDS = frozenset({"maximum", "fmax", "clamp", "clamp_", "clamp_min", "clip", "clip_by_value", "nan_to_num", "any", "reduce_any", "divide_no_nan", "max"})  # fmt: skip
_FAR_BELOW = (
    1e3  # what fills masked places so far below zero makes of an empty row what nobody means
)


def speaks_of_empty_rows(function: Callable[..., Any], rule: Sequence[Callable[..., Any]]) -> bool:
    """Do words near the function, or its text or its rule's, say that there may be such, and none that there are not?"""
    told = [text.text for text in texts_about(function) if text.near]
    if any(map(_PROMISED.search, told)):
        return False
    texts = [text for text in map(text_of, (function, *rule)) if text is not None]
    nodes = nodes_of(texts)
    if any(map(_fills, nodes)):
        return False
    return any(map(_TOLD.search, told)) or any(
        name in _GUARDS for node in nodes for name in _called(node)
    )


def _called(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        yield last_word(node.func)


def _fills(node: ast.AST) -> bool:
    """Is it a number far below zero, or the least of a dtype?"""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return value >= _FAR_BELOW
        case ast.Attribute(attr="min", value=ast.Call(func=called)):
            return last_word(called) == "finfo"
    return False
