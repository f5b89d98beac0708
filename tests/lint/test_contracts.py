"""What a framework asks of a rule, read off the source; what is open, or right, is left alone."""

from __future__ import annotations

import textwrap

import pytest

from gradcheck_cli.lint.linted import linted

VJP = """
    import jax
    from functools import partial

    @{decorator}
    def f({args}):
        return x * y

    def fwd({forward}):
        return f(x, y), (x, y)

    def bwd({backward}):
        {body}

    f.defvjp(fwd, bwd)
"""


def found(source: str) -> list[str]:
    return [f.rule for f in linted(textwrap.dedent(source), "a.py")]


def vjp(
    decorator: str = "jax.custom_vjp", args: str = "x, y", forward: str = "x, y", backward: str = "res, g",
    body: str = "return g * res[1], g * res[0]",
) -> list[str]:  # fmt: skip
    return found(VJP.format(decorator=decorator, args=args, forward=forward, backward=backward, body=body))  # fmt: skip


def test_a_whole_rule_breaks_nothing() -> None:
    assert vjp() == []
    static = "partial(jax.custom_vjp, nondiff_argnums=(1,))"
    assert vjp(static, backward="y, res, g", body="return (g * y,)") == []


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ({"forward": "x"}, "wrong-parameters-of-rule"),
        ({"backward": "res, g, more"}, "wrong-parameters-of-rule"),
        ({"decorator": "partial(jax.custom_vjp, nondiff_argnums=(1,))"}, "wrong-parameters-of-rule"),
        ({"body": "return (g * res[1],)"}, "wrong-number-of-gradients"),
        ({"body": "return res[1], res[0]"}, "cotangent-never-used"),
        ({"body": "g1, g2 = g; return g1 * res[1], g1 * res[0]"}, "output-cotangent-never-used"),
    ],
)  # fmt: skip
def test_what_is_broken_is_told(how: dict[str, str], rule: str) -> None:
    assert vjp(**how) == [rule]


@pytest.mark.parametrize(
    "how",
    [
        {"backward": "*all_of_it", "body": "return all_of_it"},
        {"forward": "*args"},
        {"args": "x, y=2.0", "body": "return (g * res[1],)"},
        {"body": "grads = g * res[1], g * res[0]; return grads"},
        {"backward": "res, _g", "body": "return res[1], res[0]"},
        {"body": "return None, None"},
        {"body": "_, g2 = g; return g2 * res[1], g2 * res[0]"},
        {"decorator": "partial(jax.custom_vjp, nondiff_argnums=STATIC)"},
    ],
)
def test_what_is_open_or_meant_is_left(how: dict[str, str]) -> None:
    assert vjp(**how) == []


def test_a_rule_that_is_attached_by_a_decorator_or_somewhere_is_attached() -> None:
    source = """
        import jax

        @jax.custom_jvp
        def f(x):
            return x

        @f.defjvp
        def f_jvp(primals, tangents):
            return f(*primals), tangents[0]
    """
    assert found(source) == []
    assert found(source.replace("@f.defjvp", "@other")) == ["rule-never-attached"]
    assert found(source.replace("@f.defjvp", "@self.g.defjvp")) == []
    partial = source.replace("@f.defjvp", "@functools.partial(f.defjvp, symbolic_zeros=True)")
    assert found(partial.replace("import jax", "import functools, jax")) == []


TORCH = """
    import torch
    from torch.autograd import Function

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, s, power=2):
            {forward}
            return y

        {decorator}
        def backward(ctx, {grads}):
            return {result}
"""


@pytest.mark.parametrize(
    ("how", "rules"),
    [
        ({}, []),
        ({"result": "grad, None"}, []),
        ({"result": "grad, None, None, None"}, []),
        ({"result": "(grad,)"}, ["wrong-number-of-gradients"]),
        ({"result": "grad, grad, None, grad"}, ["wrong-number-of-gradients"]),
        ({"decorator": ""}, ["method-is-not-static"]),
        ({"decorator": "@classmethod"}, []),
        ({"forward": "ctx.y = y"}, ["tensor-kept-on-ctx"]),
        ({"forward": "ctx.x = x; x.shape"}, ["tensor-kept-on-ctx"]),
        ({"forward": "ctx.power = power"}, []),
        ({"grads": "grad, grad_state"}, ["output-cotangent-never-used"]),
        ({"grads": "grad, grad_indices"}, []),
        ({"grads": "grad, *others"}, []),
    ],
)
def test_functions_of_torch(how: dict[str, str], rules: list[str]) -> None:
    right = {"forward": "y = x * s", "decorator": "@staticmethod", "grads": "grad", "result": "grad, grad, None"}  # fmt: skip
    assert found(TORCH.format(**right | how)) == rules


def test_what_takes_variables_is_not_counted() -> None:
    source = """
        import tensorflow as tf

        @tf.custom_gradient
        def f(x, y):
            def grad(dy, variables=None):
                return (dy * y, dy * x), [dy]

            return x * y, grad
    """
    assert found(source) == []
    assert (
        found(source.replace(", variables=None", "").replace("(dy * y, dy * x), [dy]", "dy * y"))
        == []
    )
    assert found(
        source.replace(", variables=None", "").replace("(dy * y, dy * x), [dy]", "dy, dy, dy")
    ) == ["wrong-number-of-gradients"]


def test_a_method_of_tensorflow_gives_no_gradient_for_its_object() -> None:
    method = """
        import tensorflow as tf

        class Room:
            @tf.custom_gradient
            def simulate(self, x, y):
                def grad(g):
                    return {gradients}
                return x * y, grad
    """
    assert found(method.format(gradients="g * y, g * x")) == []
    assert found(method.format(gradients="None, g * y, g * x")) == ["wrong-number-of-gradients"]
