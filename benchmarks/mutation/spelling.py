"""The neutral rules as modules of each framework, the way their users write them."""

from __future__ import annotations

import ast

_JAX = """import jax
import jax.numpy as np

"""
_JAX_RULE = """
@jax.custom_vjp
{primal}

{rule}

{name}.defvjp(lambda *args: ({name}(*args), args), lambda kept, g: {rule_name}(g, *kept))
"""
_TORCH = """import torch


class np:
    exp, log, log1p, tanh, sin, cos, sqrt = torch.exp, torch.log, torch.log1p, torch.tanh, torch.sin, torch.cos, torch.sqrt
    abs, sign, where, matmul, ones_like, cumsum, arctan = torch.abs, torch.sign, torch.where, torch.matmul, torch.ones_like, torch.cumsum, torch.arctan
    transpose = torch.t

    def sum(x, axis=None, keepdims=False):
        return torch.sum(x) if axis is None else torch.sum(x, axis, keepdim=keepdims)

    def max(x, axis, keepdims=False):
        return torch.amax(x, axis, keepdims)

"""
_TORCH_RULE = """
{rule}

class {name}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {arguments}):
        ctx.save_for_backward({arguments})
{body}

    @staticmethod
    def backward(ctx, g):
        found = {rule_name}(g, *ctx.saved_tensors)
        return found if len(found) > 1 else found[0]
"""
_TENSORFLOW = """import tensorflow as tf


class np:
    exp, log, log1p, tanh, sin, cos, sqrt = tf.exp, tf.math.log, tf.math.log1p, tf.tanh, tf.sin, tf.cos, tf.sqrt
    abs, sign, where, ones_like, cumsum, arctan, transpose = tf.abs, tf.sign, tf.where, tf.ones_like, tf.cumsum, tf.atan, tf.transpose

    def matmul(a, b):
        return tf.linalg.matvec(a, b) if b.shape.rank == 1 else tf.matmul(a, b)

    def sum(x, axis=None, keepdims=False):
        return tf.reduce_sum(x, axis, keepdims)

    def max(x, axis, keepdims=False):
        return tf.reduce_max(x, axis, keepdims)

"""
_TENSORFLOW_RULE = """
{rule}

@tf.custom_gradient
def {name}({arguments}):
    def grad(g):
        found = {rule_name}(g, {arguments})
        return found if len(found) > 1 else found[0]

{value}
"""
FRAMEWORKS = {
    "jax": (_JAX, _JAX_RULE),
    "torch": (_TORCH, _TORCH_RULE),
    "tensorflow": (_TENSORFLOW, _TENSORFLOW_RULE),
}


def module(framework: str, primal: ast.FunctionDef, rules: dict[str, ast.FunctionDef]) -> str:
    """One file: the primal once for each name, with that rule."""
    head, form = FRAMEWORKS[framework]
    return head + "\n".join(
        _spelled(framework, form, primal, name, rule) for name, rule in rules.items()
    )


def _spelled(framework: str, form: str, primal: ast.FunctionDef, name: str, rule: ast.FunctionDef) -> str:  # fmt: skip
    rule_name = f"{name}_bwd"
    body = primal.body
    arguments = ", ".join(a.arg for a in primal.args.args)
    *before, last = body
    assert isinstance(last, ast.Return)
    assert last.value is not None
    value = "\n".join(f"    {_text(framework, s)}" for s in before)
    value += f"\n    return {_text(framework, last.value)}, grad"
    text = ast.FunctionDef(rule_name, rule.args, rule.body, [], None)
    named = ast.FunctionDef(name, primal.args, primal.body, [], None)
    return form.format(
        name=name, rule_name=rule_name, arguments=arguments, value=value,
        primal=_text(framework, named), rule=_text(framework, text),
        body="\n".join(f"        {_text(framework, s)}" for s in body),
    )  # fmt: skip


def _text(framework: str, node: ast.AST) -> str:
    if framework != "jax":
        node = _Transposed().visit(ast.parse(ast.unparse(ast.fix_missing_locations(node))))
    return ast.unparse(ast.fix_missing_locations(node))


class _Transposed(ast.NodeTransformer):
    """`x.T` is `transpose(x)` where tensors have no such attribute."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr != "T":
            return node
        name = ast.Attribute(ast.Name("np", ast.Load()), "transpose", ast.Load())
        return ast.Call(name, [node.value], [])
