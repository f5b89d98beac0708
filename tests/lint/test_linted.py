"""What the linter finds in sources, in the spellings of all frameworks; and what it leaves alone."""

from __future__ import annotations

import textwrap

import pytest

from gradcheck_cli.lint.linted import linted
from gradcheck_cli.lint.vocabulary import computes

SPELLINGS = {
    "jax": ("import jax.numpy as jnp", "jnp.exp(x)", "jnp.log(1 + e)"),
    "jax's numpy": ("from jax import numpy as np", "np.exp(x)", "np.log(e + 1.0)"),
    "torch": ("import torch", "torch.exp(x)", "torch.log(1 + e)"),
    "torch's methods": ("import torch", "x.exp()", "(1 + e).log()"),
    "torch in place": ("import torch", "x.exp_()", "e.add(1).log_()"),
    "tensorflow": ("import tensorflow as tf", "tf.exp(x)", "tf.math.log(1 + e)"),
    "tensorflow 1": ("import tensorflow.compat.v1 as tf", "tf.exp(x)", "tf.log(tf.add(1.0, e))"),
    "keras": ("from keras import ops", "ops.exp(x)", "ops.log(1 + e)"),
    "keras's backend": ("from tensorflow.keras import backend as K", "K.exp(x)", "K.log(1 + e)"),
    "numpy": ("import numpy as np", "np.exp(x)", "np.log1p(e)"),
    "math": ("from math import *", "exp(x)", "log(1 + e)"),
    "an alias": ("import tensorflow as tf\nm = tf.math", "m.exp(x)", "m.log(1 + e)"),
    "a name alone": ("from jax.numpy import exp, log as ln", "exp(x)", "ln(1 + e)"),
}


def rules(source: str) -> list[str]:
    return [f.rule for f in linted(textwrap.dedent(source), "model.py")]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_softplus_over_two_lines_in_every_spelling(spelling: str) -> None:
    imported, e, value = SPELLINGS[spelling]
    source = f"{imported}\n\n\ndef log1pexp(x):\n    e = {e}\n    return {value}\n"
    (finding,) = linted(source, "model.py")
    line = source.splitlines()[finding.line - 1]
    assert finding.rule == "naive-softplus"
    assert line[finding.column - 1 : (finding.end_column or 0) - 1] == value


@pytest.mark.parametrize(
    "body",
    [
        "np.log1p(np.exp(-np.abs(x)))",  # bounded above
        "np.log1p(np.exp(np.minimum(x, 30.0)))",
        "np.log1p(np.exp(np.clip(x, -20, 20)))",
        "np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x)",  # shifted
        "np.exp(x - x.max()) / np.exp(x - x.max()).sum()",
        "np.log(np.maximum(x, 1e-6))",
        "np.sqrt(np.sum(x * x) + 1e-12)",
        "x / np.sqrt(np.sum(x**2) + 1e-8)",
        "np.exp(np.float64(x)) - 1",  # digits to spare
        "np.log(2.0) - 1",
        "np.arange(2**63 + 1, 2**63 + 9) - x",  # whole numbers
    ],
)
def test_what_is_guarded_is_left_alone(body: str) -> None:
    assert rules(f"import jax.numpy as np\n\n\ndef f(x):\n    return {body}\n") == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("    p = 1.0\n    for w in x:\n        p *= f(w)\n    return np.log(p)", "log-of-product"),
        (
            "    s = 0\n    for w in x:\n        s += np.exp(w)\n    return np.log(s)",
            "naive-logsumexp",
        ),
        ("    np.exp(x, out=x)\n    return x / x.sum()", "naive-softmax"),
        (
            "    for o in x:\n        y = (y @ A) * B[:, o]\n    return np.log(y.sum())",
            "log-of-product",
        ),
        (
            "    for o in x:\n        y = y @ A\n        y *= B[:, o]\n    return np.log(y.sum())",
            "log-of-product",
        ),
        ("    return np.log(np.einsum('ij,j->i', np.exp(x), y))", "naive-logsumexp"),
        ("    w = np.exp(x)\n    return w.sum() ** 2 / (w**2).sum()", "quotient-of-exponentials"),
        (
            "    t = np.sqrt(np.sum(x**2) + 1e-12)\n    return (1 - np.cos(t)) / t**2",
            "one-minus-cosine",
        ),
        ("    return np.log(np.random.uniform(size=3))", "log-of-uniform-draw"),
        (
            "    kept = np.not_equal(x, y)\n    return (x * kept).sum() / kept.sum()",
            "division-by-zero",
        ),
    ],
)
def test_what_loops_and_calls_leave_in_a_name_is_known(body: str, rule: str) -> None:
    assert rules(f"import numpy as np\n\n\ndef loss(x, y):\n{body}\n") == [rule]


@pytest.mark.parametrize(
    "body",
    [
        "    p = 2.0\n    for w in x:\n        p *= f(w)\n    return np.log(p)",  # from elsewhere
        "    p = 1.0\n    for w in x:\n        p *= f(w)\n        p = g(p)\n    return np.log(p)",
        "    return x / max(np.linalg.norm(x), 1e-6)",  # of Python, and no axis
        "    return x / max(1e-6, np.linalg.norm(x), 1e-3)",
        "    for o in x:\n        y = y @ A\n        y = y / y.sum()\n    return np.log(y.sum())",
        "    return np.log(np.random.uniform(1e-9, 1.0, 3)) + np.log(np.random.gamma(2.0, 1.0))",
        "    return 1 - np.cos(np.deg2rad(np.arange(30.0, 151.0, 15.0)))",
    ],
)
def test_what_is_kept_away_or_not_known_in_a_name_is_left_alone(body: str) -> None:
    assert rules(f"import numpy as np\n\n\ndef loss(x, y):\n{body}\n") == []


def test_a_branch_that_leaves_keeps_what_the_other_holds() -> None:
    source = """
        import torch

        def f(x, stable):
            e = torch.exp(x)
            if stable:
                e = torch.exp(-x.abs())
                return torch.log1p(e)
            return torch.log1p(e)
        """
    (finding,) = linted(textwrap.dedent(source), "model.py")
    assert finding.line == 9


def test_what_two_branches_leave_is_not_known() -> None:
    source = """
        import torch

        def f(x, flag):
            e = torch.exp(x)
            if flag:
                e = torch.tanh(x)
            return torch.log1p(e)
        """
    assert rules(source) == []


def test_a_comparison_before_keeps_zero_away() -> None:
    plain = "import jax.numpy as np\n\n\ndef f(x):\n    n = np.linalg.norm(x)\n{}    return x / n\n"
    assert rules(plain.format("")) == ["division-by-zero"]
    assert rules(plain.format("    if n == 0:\n        return x\n")) == []


def test_helpers_settings_and_small_defaults_are_seen_through() -> None:
    source = """
        import jax.numpy as jnp

        EPS = 1e-8

        def squared(x):
            return jnp.sum(x * x)

        class Layer:
            floor: float = 1e-6

            def one(self, x):
                return jnp.sqrt(squared(x))

            def two(self, x, eps=1e-6):
                return jnp.sqrt(squared(x) + eps) + jnp.sqrt(squared(x) + EPS)

            def three(self, x):
                return jnp.sqrt(jnp.maximum(squared(x), self.floor))
        """
    (finding,) = linted(textwrap.dedent(source), "model.py")
    assert (finding.rule, finding.line) == ("root-at-zero", 13)


def test_gradients_count_only_where_something_differentiates() -> None:
    root = "import {0} as np\n\n\ndef f(x):\n    return np.sqrt(np.sum(x * x))\n"
    assert rules(root.format("jax.numpy")) == ["root-at-zero"]
    assert rules(root.format("numpy")) == []
    asked = "import torch\n\n\ndef f(x):\n    with torch.no_grad():\n        return x.square().sum().sqrt()\n"
    assert rules(asked) == []


def test_a_where_hides_a_value_and_not_its_gradient() -> None:
    source = "import jax.numpy as jnp\n\n\ndef f(x):\n    {}\n    return jnp.where(x > 0, jnp.log(y), 0.0)\n"
    assert rules(source.format("y = x")) == ["where-poisons-gradient"]
    assert rules(source.format("y = jnp.where(x > 0, x, 1.0)")) == []


def test_the_place_counts_letters_and_not_bytes() -> None:
    source = "import numpy as np\nα = 1; y = lambda x: np.exp(x) - 1\n"
    (finding,) = linted(source, "model.py")
    line = source.splitlines()[1]
    assert line[finding.column - 1 : (finding.end_column or 0) - 1] == "np.exp(x) - 1"


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("def f(:\n", "syntax-error"),
        ("x = '\0'\n", "syntax-error"),
        ("x = " + "(" * 500 + "1" + ")" * 500 + "\n", "syntax-error"),
        ("x = " + "-" * 50_000 + "1\n", "unreadable-file"),
        ("x = 1\n" * 400_000, "unreadable-file"),
    ],
)
def test_what_cannot_be_read_is_said(source: str, rule: str) -> None:
    assert [f.rule for f in linted(source, "model.py")] == [rule]


def test_what_no_package_computes_is_parsed_alone() -> None:
    text = "def f(x):\n    return {}.log(1 + {}.exp(x))\n"
    assert rules("import jnp\n" + text.format("jnp", "jnp")) == []
    assert rules("import torch\n" + text.format("torch", "torch")) == ["naive-softplus"]
    assert rules("def f(x):\n    return (\n") == ["syntax-error"]
    assert not computes("def f(*a, **k):\n    return g(*a, **k)\n")
    assert computes("def f(rate, n):\n    return (1.0 - (1.0 + rate) ** (-n)) / rate\n")


def test_settings_that_are_given_by_place_alone_are_known() -> None:
    source = """
        import torch

        class Scale(torch.nn.Module):
            def __init__(self, module, floor=0.0, /, *, size):
                self.floor = floor

            def forward(self, x):
                return torch.log(1 + torch.exp(x))
        """
    assert rules(source) == ["naive-softplus"]


def test_odd_statements_are_walked_through() -> None:
    source = """
        import torch
        from . import other

        async def f(x, *args, k: float = 1.0, **kw):
            async with other.lock() as (a, b):
                async for y, *rest in other.stream(x):
                    x[0], self.z = y, (w := torch.exp(y))
                    del rest
            match x:
                case [a, *b]:
                    global g
                    g = {k: torch.log1p(v.exp()) for k, v in kw.items()}
            try:
                return lambda q: torch.log(1 + q.exp()) if q else (yield)
            except* ValueError:
                raise
            finally:
                x @= torch.eye(2)
        """
    assert rules(source) == ["naive-softplus", "naive-softplus"]


def test_what_grows_with_each_line_is_a_name_in_the_end() -> None:
    """Each line doubles what `x` is made of; a thousand lines are read all the same."""
    body = "    x = x * x + np.tanh(x) * y\n    y = y - x * y\n" * 500
    source = f"import numpy as np\n\n\ndef f(x, y):\n{body}    return np.exp(y) - 1\n"
    (finding,) = linted(source, "model.py")
    assert finding.rule == "naive-expm1"


PAIRS = """
import tensorflow as tf, torch


def standardized(x):
    mean, var = tf.nn.moments(x, axes=[1])
    return (x - mean) / tf.sqrt(var)


def by_torch(x):
    std, mean = torch.std_mean(x)
    return (x - mean) / std


def picked(logits, labels):
    p = torch.softmax(logits, -1)
    return torch.log(p.gather(-1, labels))
"""


def test_several_values_of_one_call_and_elements_that_are_picked_are_known() -> None:
    assert set(rules(PAIRS)) == {"division-by-zero", "root-at-zero", "log-of-softmax"}  # fmt: skip


def test_what_stands_by_an_index_matches_any_index() -> None:
    source = """
        import numpy as np
        def returns(rewards, gamma):
            d = gamma ** np.arange(len(rewards))
            return np.cumsum((rewards * d)[::-1])[::-1] / d
        def discounted(flows, rate):
            return (flows / (1 + rate) ** np.arange(len(flows))).sum()
        """
    assert [f.rule for f in linted(textwrap.dedent(source), "ops.py")] == ["scan-by-division"]


def test_a_mask_that_the_function_makes_leaves_something_of_each_row() -> None:
    source = """
        import torch
        def causal(scores):
            keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            return scores.masked_fill(~keep, float("-inf")).softmax(-1)
        def padded(scores, keep):
            return scores.masked_fill(~keep, float("-inf")).softmax(-1)
        def filled(scores, keep):
            return scores.masked_fill(~keep, -1e9).softmax(-1)
        """
    found = [(f.rule, f.line) for f in linted(textwrap.dedent(source), "ops.py")]
    assert found == [("softmax-of-masked-row", 7)]


@pytest.mark.parametrize(
    ("exponent", "rule"),
    [
        ("(x - x.max()) / tau", None),
        ("(x.min() - x) / tau", None),
        ("-beta * (x - x.min())", None),
        ("(x - x.min()) / tau", "naive-softmax"),
        ("(x.max() - x) / tau", "naive-softmax"),
        ("slope * jnp.arange(9)", "naive-softmax"),
        ("-jnp.arange(9) / tau", None),
        ("-jnp.arange(200, 300) / tau", "weights-that-vanish"),
        ("-0.5 * (x / tau) ** 2", "weights-that-vanish"),
        ("-beta * x", None),
        ("x", "naive-softmax"),
    ],
)
def test_weights_are_shifted_so_that_none_overflows_and_not_all_vanish(
    exponent: str, rule: str | None
) -> None:
    source = f"""
import jax.numpy as jnp
def mean(x, y, tau, beta, slope):
    w = jnp.exp({exponent})
    return (w * y).sum() / w.sum()
"""
    assert [f.rule for f in linted(source, "ops.py")] == ([] if rule is None else [rule])


def test_a_flag_of_the_module_is_no_mask() -> None:
    source = """
        import jax, jax.numpy as jnp
        CAUSAL = 1
        def f(x, mask):
            return jax.nn.softmax(jnp.where(CAUSAL == 1, x, -jnp.inf))
        def g(x, mask):
            return jax.nn.softmax(jnp.where(mask, x, -jnp.inf), where=mask)
        """
    assert linted(textwrap.dedent(source), "ops.py") == []


def test_a_class_of_the_module_is_no_array() -> None:
    assert (
        rules("""
        import tensorflow as tf

        class np:
            exp, abs = tf.exp, tf.abs

        def f(x):
            return 1 / (1 + np.exp(-x))
        """)
        == []
    )
