"""Windows that slide: which parameters are how long they are and how far they go, and calls where they overlap."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.infer.source_text.tree import Text, text_of
from gradcheck_cli.inputs.names import is_step, is_window
from gradcheck_cli.inputs.signature import Fixed, Leaf, Parameter, Signature
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.subject.refusals import Rejected, RuleError

_OVERLAPPING = ((3, 2), (2, 1))  # a length and a step, the most telling first
_OTHER = object()  # neither a whole number nor several of them
_SOURCE = "windows that overlap"
_FAR = 64  # a step after which no second window fits

Sizes = int | tuple[int, ...]
Window = tuple[
    str, str
]  # the parameter that is its length (or the window itself), and that of its step


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


def overlapping(
    signature: Signature, parameters: Sequence[Parameter], window: Window
) -> Iterator[dict[str, Fixed]]:
    """Arguments at which windows overlap, the most telling first; none where these are no whole numbers."""
    length, step = (_sizes(signature, parameters, name) for name in window)
    given = dict(signature.arguments).get(window[0])
    if step is _OTHER:
        return
    if isinstance(given, Leaf):
        if len(given.shape) == 1 and given.shape[0] > 1:
            yield {window[1]: _fixed(_like(given.shape[0] - 1, step))}
    elif isinstance(length, int):
        for long, far in _OVERLAPPING:
            yield {window[0]: _fixed(long), window[1]: _fixed(_like(far, step))}
    elif isinstance(length, tuple) and length:
        pairs = [_OVERLAPPING[i % len(_OVERLAPPING)] for i in range(len(length))]
        steps = tuple(far for _, far in pairs)
        far_enough = min(steps) if isinstance(step, int) else steps
        yield {window[0]: _fixed(tuple(long for long, _ in pairs)), window[1]: _fixed(far_enough)}


def slides(gradient: CustomGradient, dtype: str, window: Window) -> Callable[[Signature], bool]:
    """A test of calls: are there two windows or more, along each axis that has a step of its own?"""
    step = window[1]

    def results(signature: Signature) -> Sequence[tuple[int, ...]] | None:
        try:
            return list(fitted(gradient, signature, dtype).outputs)
        except (Rejected, RuleError):
            return None

    def told(signature: Signature) -> bool:
        given, here = dict(signature.arguments).get(step), results(signature)
        value = given.value if isinstance(given, Fixed) else None
        steps = value if isinstance(value, tuple) else (value,)
        for place in range(len(steps)):
            far = tuple(_FAR if i == place else n for i, n in enumerate(steps))
            there = _with(signature, {step: _fixed(far if isinstance(value, tuple) else _FAR)})
            if here is not None and results(there) == here:
                return False
        return True

    return told


def _with(signature: Signature, changed: dict[str, Fixed]) -> Signature:
    arguments = tuple((name, changed.get(name, value)) for name, value in signature.arguments)
    return Signature(arguments, signature.keywords)


def _like(number: int, step: object) -> Sizes:
    """The number, for each axis where the step has several."""
    return (number,) * len(step) if isinstance(step, tuple) else number


def _fixed(value: Sizes) -> Fixed:
    return Fixed(value, repr(value), _SOURCE)


def _sizes(signature: Signature, parameters: Sequence[Parameter], name: str) -> object:
    """The whole numbers that an argument is, None where it is left out."""
    given = dict(signature.arguments).get(name)
    default = next((p.default for p in parameters if p.name == name), None)
    value = given.value if isinstance(given, Fixed) else default
    parts = value if isinstance(value, tuple) else (value,)
    whole = value is None or all(type(part) is int for part in parts)
    return value if whole else _OTHER


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
