"""JAX: `custom_vjp` and `custom_jvp` need their rule attached, and call it with what is static first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.lint.contracts.functions import (
    Broken,
    Function,
    Module,
    is_open,
    least,
    miscounted,
    parameters,
    takes,
    unpacked,
    unread,
)
from gradcheck_cli.lint.nodes import of_module

_KINDS = ("jax.custom_vjp", "jax.custom_jvp", "jax.custom_derivatives.custom_vjp", "jax.custom_derivatives.custom_jvp")  # fmt: skip
_PARTIAL = "functools.partial"
_ATTACH = ("defvjp", "defjvp", "defjvps")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A function with a custom derivative; `static`: how many of its arguments are, None where that is not written out."""

    function: Function
    kind: str
    static: int | None


def broken(module: Module) -> Iterator[Broken]:
    rules = {rule.function.name: rule for rule in _rules(module)}
    if not rules:
        return
    attached = list(_attached(module))
    strangers = [name for name, _, _ in attached if name not in rules]
    told = {name for name, _, _ in attached}
    for name, rule in rules.items():
        if name not in told and not strangers:
            method = "defvjp(fwd, bwd)" if rule.kind.endswith("vjp") else "defjvp(rule)"
            text = (
                f"`{name}` is a {rule.kind}, and nothing attaches a rule to it: `{name}.{method}`"
            )
            yield Broken("rule-never-attached", rule.function, text)
    for name, method, functions in attached:
        if name in rules and rules[name].static is not None:
            yield from _of_calls(rules[name], rules[name].static or 0, method, functions)


def _rules(module: Module) -> Iterator[_Rule]:
    for node in of_module(module.tree):
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            made = _made_partial(decorator, module) or decorator
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            kind = module.full(made.func if isinstance(made, ast.Call) else made)
            if kind in _KINDS and isinstance(node, ast.FunctionDef):
                yield _Rule(node, kind.rpartition(".")[2], _static(keywords))


def _made_partial(node: ast.expr, module: Module) -> ast.expr | None:
    """What `functools.partial(…)` is made of."""
    is_one = isinstance(node, ast.Call) and module.full(node.func) == _PARTIAL
    return node.args[0] if isinstance(node, ast.Call) and is_one and node.args else None


def _static(keywords: list[ast.keyword]) -> int | None:
    """How many arguments are not differentiated."""
    count = 0
    for keyword in keywords:
        if keyword.arg not in ("nondiff_argnums", "nondiff_argnames"):
            continue
        try:
            value = ast.literal_eval(keyword.value)
        except ValueError:
            return None
        count += len(value) if isinstance(value, tuple | list) else 1
    return count


def _attached(module: Module) -> Iterator[tuple[str, str, list[Function]]]:
    """Names to which a rule is attached, by which method, and the functions of the rule."""
    for node in of_module(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ATTACH:  # fmt: skip
            held = node.func.value
            found = [module.named(a) for a in node.args]
            functions = [f for f in found if f is not None] if all(found) else []
            yield getattr(held, "id", getattr(held, "attr", "")), node.func.attr, functions
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            made = _made_partial(decorator, module) or decorator
            made = made.func if isinstance(made, ast.Call) else made
            if isinstance(made, ast.Attribute) and made.attr in _ATTACH and isinstance(node, ast.FunctionDef):  # fmt: skip
                yield getattr(made.value, "id", ""), made.attr, [node]


def _of_calls(rule: _Rule, static: int, method: str, functions: list[Function]) -> Iterator[Broken]:
    if method == "defvjp" and len(functions) == 2:
        yield from _forward_and_backward(rule, static, *functions)
    elif method == "defjvp" and functions:
        jvp = functions[0]
        if not takes(jvp, static + 2):
            yield _called(jvp, static + 2, _before(static, "the primals and the tangents"))


def _forward_and_backward(rule: _Rule, static: int, fwd: Function, bwd: Function) -> Iterator[Broken]:  # fmt: skip
    count = len(parameters(rule.function))
    if not is_open(rule.function) and not takes(fwd, count):
        yield _called(fwd, count, "the function's own arguments in their order")
    if not takes(bwd, static + 2):
        yield _called(bwd, static + 2, _before(static, "the residuals and the cotangent"))
        return
    if not is_open(rule.function):
        yield from miscounted(bwd, least(rule.function) - static, count - static)
    names = [a.arg for a in parameters(bwd)]
    if names and not is_open(bwd):
        parts = unpacked(bwd, names[-1])
        yield from unread(bwd, parts or names[-1:])


def _before(static: int, what: str) -> str:
    return f"the {static} that are not differentiated, then {what}" if static else what


def _called(function: Function, count: int, what: str) -> Broken:
    text = f"`{function.name}` takes {len(parameters(function))} arguments, and JAX calls it with {count}: {what}"
    return Broken("wrong-parameters-of-rule", function, text)
