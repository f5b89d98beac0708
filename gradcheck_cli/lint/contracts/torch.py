"""PyTorch: the methods of a `Function` are static, one gradient for each input, tensors are saved and not kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.lint.contracts.functions import (
    Broken,
    Function,
    Module,
    is_open,
    least,
    miscounted,
    parameters,
    returns,
    unread,
)
from gradcheck_cli.lint.nodes import of_module, walk

_FUNCTION = ("torch.autograd.Function", "torch.autograd.function.Function", "torch.autograd.function.InplaceFunction")  # fmt: skip
_METHODS = ("forward", "backward", "setup_context", "jvp", "vmap", "vjp")
_NO_GRADIENT = "mark_non_differentiable"
_INDICES = re.compile(r"ind|idx|mask|arg|len|unused|dummy|count", re.IGNORECASE)
_OF_TENSORS = frozenset({"shape", "size", "new_empty", "new_zeros", "clone", "detach", "contiguous", "view", "device", "requires_grad"})  # fmt: skip


def broken(module: Module) -> Iterator[Broken]:
    for node in of_module(module.tree):
        if isinstance(node, ast.ClassDef) and any(module.full(b) in _FUNCTION for b in node.bases):
            yield from _of_class(node)


def _of_class(node: ast.ClassDef) -> Iterator[Broken]:
    methods = {s.name: s for s in node.body if isinstance(s, ast.FunctionDef)}
    plain = [m for name, m in methods.items() if name in _METHODS and not _is_static(m)]
    for method in plain:
        text = (
            f"`{node.name}.{method.name}` is no static method: PyTorch calls it without an object"
        )
        yield Broken("method-is-not-static", method, text)
    forward, backward = methods.get("forward"), methods.get("backward")
    if (
        forward is None
        or backward is None
        or plain
        or _of_the_class(forward)
        or _of_the_class(backward)
    ):
        return
    context = 0 if "setup_context" in methods else 1
    if not is_open(forward) and parameters(forward):
        fewest, most = least(forward) - context, len(parameters(forward)) - context
        yield from miscounted(backward, fewest, most, spare_none=True)
    names = [a.arg for a in parameters(backward)[1:]]
    if not is_open(backward) and _NO_GRADIENT not in ast.dump(node):
        yield from unread(backward, [n for n in names if not _INDICES.search(n)])
    yield from _kept(methods, forward, context)


def _is_static(method: Function) -> bool:
    """Is it called without an object, as far as its decorators tell?"""
    wrapped = any(isinstance(d, ast.Call) for d in method.decorator_list)
    return "staticmethod" in _decorators(method) or _of_the_class(method) or wrapped


def _of_the_class(method: Function) -> bool:
    return "classmethod" in _decorators(method)


def _decorators(method: Function) -> list[str]:
    return [getattr(d, "id", getattr(d, "attr", "")) for d in method.decorator_list]


def _kept(methods: dict[str, Function], forward: Function, context: int) -> Iterator[Broken]:
    """Tensors that forward puts on ctx as attributes: what it returns, and what it asks as a tensor."""
    if not context or not parameters(forward):
        return
    ctx = parameters(forward)[0].arg
    results = {n.id for r in returns(forward) if r.value is not None for n in _alone(r.value)}
    inputs = {a.arg for a in parameters(forward)[1:]} & _asked(forward)
    for node in walk(forward):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name):
            continue
        target = node.targets[0]
        held = isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == ctx
        if held and node.value.id in results | inputs:
            text = f"`{ast.unparse(target)}` keeps the tensor `{node.value.id}` past what `save_for_backward` watches over"
            yield Broken(RuleName.TENSOR_KEPT_ON_CTX, node, text)


def _alone(value: ast.expr) -> list[ast.Name]:
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return [part for part in parts if isinstance(part, ast.Name)]


def _asked(forward: Function) -> set[str]:
    """The names of which attributes or methods of tensors are read."""
    attributes = (n for n in walk(forward) if isinstance(n, ast.Attribute))
    return {
        n.value.id for n in attributes if n.attr in _OF_TENSORS and isinstance(n.value, ast.Name)
    }
