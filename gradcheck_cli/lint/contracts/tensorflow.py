"""TensorFlow: a grad function gives one gradient for each argument, and those of the variables that are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

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

_DECORATORS = ("tensorflow.custom_gradient", "tensorflow.compat.v1.custom_gradient", "tensorflow.compat.v2.custom_gradient")  # fmt: skip
_MAKES_VARIABLES = ("Variable", "add_weight", "get_variable")


def broken(module: Module) -> Iterator[Broken]:
    found = list(with_grads(module, _DECORATORS))
    classes = (n for n in of_module(module.tree) if isinstance(n, ast.ClassDef)) if found else ()
    weights = {name for each in classes for name in _weights(each)}
    for function, grad in found:
        takes_variables = _takes_variables(grad)
        if not is_open(function) and not takes_variables:
            bound = [a.arg for a in parameters(function)][:1] == ["self"]  # TensorFlow binds it
            most = len(parameters(function)) - bound
            yield from miscounted(grad, least(function) - bound, most)
        if not is_open(grad):
            yield from unread(grad, [a.arg for a in parameters(grad) if a.arg != "variables"])
        used = sorted({name for name in _read_of_self(function) if name in weights})
        if used and not takes_variables and grad.args.kwarg is None:
            text = f"`{function.name}` uses the variable `self.{used[0]}`, and `{grad.name}` takes no `variables=`"
            yield Broken("gradient-without-variables", grad, text)


def with_grads(module: Module, decorators: tuple[str, ...]) -> Iterator[tuple[Function, Function]]:
    """The decorated functions, each with the grad function that it defines and returns."""
    for node in of_module(module.tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        if not any(module.full(d) in decorators for d in node.decorator_list):
            continue
        inner = {s.name: s for s in walk(node) if isinstance(s, ast.FunctionDef) and s is not node}  # fmt: skip
        for each in returns(node):
            last = each.value.elts[-1] if isinstance(each.value, ast.Tuple) and each.value.elts else None  # fmt: skip
            if isinstance(last, ast.Name) and last.id in inner:
                yield node, inner[last.id]
                break


def _takes_variables(grad: Function) -> bool:
    return any(a.arg == "variables" for a in (*parameters(grad), *grad.args.kwonlyargs))


def _weights(node: ast.ClassDef) -> Iterator[str]:
    """Attributes that a class makes variables of."""
    for statement in walk(node):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        made = statement.value.func
        target = statement.targets[0]
        if getattr(made, "attr", "") in _MAKES_VARIABLES and isinstance(target, ast.Attribute):
            yield target.attr


def _read_of_self(function: Function) -> Iterator[str]:
    for node in walk(function):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            yield node.attr
