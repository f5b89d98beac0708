"""Windows that slide: which parameters are how long they are, and how far they go."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcheck_cli.clues.source_text.tree import Text, text_of
from gradcheck_cli.inputs.names import is_step, is_window

# The parameter that is its length (or the window itself), and that of its step.
Window = tuple[str, str]


def windows(functions: Sequence[Callable[..., Any]], names: Sequence[str]) -> list[Window]:
    """What the texts slide, or what the names of the parameters say."""
    seen = _Seen(names)
    for text in map(text_of, functions):
        if text is not None:
            seen.read(text)
    lengths = [*seen.lengths, *(n for n in names if is_window(n))]
    steps = [*seen.steps, *(n for n in names if is_step(n))]
    pairs = dict.fromkeys((length, step) for length in lengths for step in steps if length != step)
    alike = [pair for pair in pairs if pair[0] not in steps and pair[1] not in lengths]
    return alike or list(pairs)


@dataclass(slots=True)
class _Seen:
    """What one text and the next slide along arrays, by the names of parameters."""

    names: Sequence[str]
    lengths: dict[str, None] = field(default_factory=dict)
    steps: dict[str, None] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # of one text

    def read(self, text: Text) -> None:
        """Read one text, its assignments before what they are used for."""
        self.aliases = {name: name for name in self.names if name in text.parameters}
        nodes = [node for top in text.statements for node in ast.walk(top)]
        for node in nodes:
            if isinstance(node, ast.Assign):
                self._name(node)
        for node in nodes:
            self._use(node)

    def _name(self, node: ast.Assign) -> None:
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            found = self._parameters(node.value)
            own = [t.id for t in names if isinstance(t, ast.Name) and t.id in found]
            if len(found) == 1 or own:
                only = own[0] if own else found[0]
                self.aliases |= {t.id: only for t in names if isinstance(t, ast.Name) and t.id not in self.names}  # fmt: skip

    def _parameters(self, node: ast.expr | None) -> list[str]:
        """The parameters that an expression is made of, but for those that only a call of it takes."""
        if node is None or (isinstance(node, ast.Call) and not _is_cast(node)):
            return []
        found = (self.aliases.get(n.id) for n in ast.walk(node) if isinstance(n, ast.Name))
        return list(dict.fromkeys(name for name in found if name is not None))

    def _one(self, node: ast.expr | None) -> list[str]:
        """The parameter that an expression is, or one of its members."""
        while isinstance(node, ast.Subscript):
            node = node.value
        return self._parameters(node) if isinstance(node, ast.Name) else []

    def _use(self, node: ast.AST) -> None:
        match node:
            case ast.Call(func=ast.Attribute(attr="unfold"), args=[_, length, step]):
                self._slide(length, step)
            case ast.Call(func=ast.Name(id="range" | "slice"), args=[_, _, step]):
                self._slide(None, step)
            case ast.Slice(lower=lower, upper=upper, step=step):
                self._slide(_length(lower, upper), step or _stride(lower))
            case ast.BinOp(
                left=ast.BinOp(op=ast.Sub(), right=length), op=ast.FloorDiv(), right=step
            ):
                self._slide(length, step)
            case ast.BinOp(left=ast.BinOp(op=ast.Mult(), right=step), op=ast.Add(), right=length):
                self._slide(_counted(length), step)
            case ast.Call(keywords=keywords):
                for keyword in keywords:
                    for name in self._one(keyword.value):
                        self._role(keyword.arg or "", name)

    def _slide(self, length: ast.expr | None, step: ast.expr | None) -> None:
        self.lengths |= dict.fromkeys(self._one(length))
        self.steps |= dict.fromkeys(self._one(step))

    def _role(self, keyword: str, name: str) -> None:
        """What a library calls an argument."""
        if is_window(keyword):
            self.lengths.setdefault(name)
        elif is_step(keyword):
            self.steps.setdefault(name)


def _counted(node: ast.expr) -> ast.expr | None:
    """`width` of `starts[:, None] * hop + arange(width)`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    counts = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("arange", "range")
    return node.args[0] if isinstance(node, ast.Call) and counts and node.args else None


def _is_cast(node: ast.Call) -> bool:
    return getattr(node.func, "id", "") in ("int", "tuple", "list")


def _length(lower: ast.expr | None, upper: ast.expr | None) -> ast.expr | None:
    """`width` of `x[i * hop : i * hop + width]`."""
    if lower is None or not isinstance(upper, ast.BinOp) or not isinstance(upper.op, ast.Add):
        return None
    return upper.right if ast.dump(upper.left) == ast.dump(lower) else None


def _stride(lower: ast.expr | None) -> ast.expr | None:
    """`hop` of `x[i * hop : …]`."""
    if not isinstance(lower, ast.BinOp) or not isinstance(lower.op, ast.Mult):
        return None
    return lower.right
