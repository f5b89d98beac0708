"""Repairs: the stable form in the words of the file, in every framework's spelling."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap

import pytest

from gradcheck_cli.lint.fixed import fixed
from gradcheck_cli.lint.linted import linted


def repaired(source: str, *, unsafe: bool = False) -> str:
    text = textwrap.dedent(source)
    done = fixed(text, lambda s: linted(s, "a.py"), unsafe=unsafe).text
    ast.parse(done)
    assert fixed(done, lambda s: linted(s, "a.py"), unsafe=unsafe).text == done
    return done


SPELLINGS = {
    "jax": ("import jax\nimport jax.numpy as jnp", "jnp.exp(x)", "jnp.log(1 + {e})", "jax.nn.softplus(x)"),
    "jax without its root": ("import jax.numpy as jnp", "jnp.exp(x)", "jnp.log(1 + {e})", "jax.nn.softplus(x)"),
    "jax.nn": ("import jax.numpy as jnp\nfrom jax import nn", "jnp.exp(x)", "jnp.log(1 + {e})", "nn.softplus(x)"),
    "torch": ("import torch", "torch.exp(x)", "torch.log(1 + {e})", "torch.nn.functional.softplus(x)"),
    "torch F": ("import torch\nimport torch.nn.functional as F", "x.exp()", "(1 + {e}).log()", "F.softplus(x)"),
    "tensorflow": ("import tensorflow as tf", "tf.exp(x)", "tf.math.log(1 + {e})", "tf.math.softplus(x)"),
    "tensorflow 1": ("import tensorflow.compat.v1 as tf", "tf.exp(x)", "tf.log(1 + {e})", "tf.math.softplus(x)"),
    "keras": ("from keras import ops", "ops.exp(x)", "ops.log(1 + {e})", "ops.softplus(x)"),
    "numpy": ("import numpy as np", "np.exp(x)", "np.log(1 + {e})", "np.logaddexp(x, 0.0)"),
    "math": ("import math", "math.exp(x)", "math.log(1 + {e})", "max(x, 0.0) + math.log1p(math.exp(-abs(x)))"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_naive_log1pexp_is_found_and_repaired_in_every_spelling(name: str) -> None:
    imports, exp, log, stable = SPELLINGS[name]
    source = f"{imports}\n\n\ndef f(x):\n    return {log.format(e=exp)}\n"
    done = repaired(source)
    assert done.endswith(f"\n\n\ndef f(x):\n    return {stable}\n")
    assert ("import jax\n" in done) == name.startswith("jax") or name == "jax.nn"


@pytest.mark.parametrize("name", SPELLINGS)
def test_so_is_its_split_form_and_what_nothing_reads_goes(name: str) -> None:
    imports, exp, log, stable = SPELLINGS[name]
    source = f"{imports}\n\n\ndef f(x):\n    e = {exp}\n    return {log.format(e='e')}\n"
    assert repaired(source).endswith(f"\n\n\ndef f(x):\n    return {stable}\n")


ARRAYS = {
    "jax": "jax.numpy.float32(100.0)", "torch": "torch.tensor(100.0)", "tensorflow": "tf.constant(100.0)",
    "keras": "__import__('keras').ops.convert_to_tensor(100.0)", "numpy": "np.float32(100.0)", "math": "100.0",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_written_runs_and_is_right(name: str) -> None:
    imports, exp, log, _ = SPELLINGS[name]
    source = repaired(f"{imports}\n\n\ndef f(x):\n    return {log.format(e=exp)}\n")
    done = subprocess.run(
        [sys.executable, "-c", f"{source}\nprint(float(f({ARRAYS[name]})))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[-1] == "100.0"


def test_an_axis_is_kept_in_the_words_of_the_framework() -> None:
    source = """\
        import torch


        def f(x):
            return torch.log(torch.sum(torch.exp(x), 1, keepdim=True))
        """
    assert "torch.logsumexp(x, dim=1, keepdim=True)" in repaired(source)


def test_a_softmax_without_its_axis_is_left() -> None:
    source = """\
        import torch


        def f(x):
            return torch.exp(x) / torch.exp(x).sum()
        """
    assert "softmax" not in repaired(source)


def test_a_repair_over_several_lines_keeps_what_stands_around() -> None:
    source = """\
        import tensorflow as tf


        def f(x, w):
            out = 2 * tf.math.log(
                1
                + tf.exp(tf.matmul(x, w))  # large
            )
            return out  # kept
        """
    assert "    out = 2 * tf.math.softplus(tf.matmul(x, w))\n    return out  # kept\n" in repaired(
        source
    )


def test_what_a_variable_holds_elsewhere_is_written_out() -> None:
    source = """\
        import numpy as np


        def f(a, b, c):
            e = np.exp(a * b - c)
            return np.log(1 + e), e
        """
    assert "    e = np.exp(a * b - c)\n    return np.logaddexp(a * b - c, 0.0), e\n" in repaired(
        source
    )


def test_what_was_bound_anew_since_has_no_text() -> None:
    source = """\
        import numpy as np


        def f(a):
            e = np.exp(a)
            a = a + 1
            return np.log(1 + e) + a
        """
    assert repaired(source) == textwrap.dedent(source)


def test_parentheses_stand_where_they_are_needed() -> None:
    source = """\
        import jax.numpy as jnp


        def f(x, y):
            return (1 - jnp.exp(x - y)) ** 2 / (jnp.exp(x) - 1)
        """
    assert "return (-jnp.expm1(x - y)) ** 2 / jnp.expm1(x)" in repaired(source)


@pytest.mark.parametrize(
    ("written", "stable"),
    [
        ("g * torch.sinh(x) / torch.cosh(x)", "g * torch.tanh(x)"),
        ("2 * g * w * torch.exp(x) / (1 + torch.exp(x))", "2 * g * w * torch.sigmoid(x)"),
        ("(g + 1) * torch.cosh(x) / torch.sinh(x)", "(g + 1) / torch.tanh(x)"),
    ],
)
def test_what_a_form_is_multiplied_by_stays(written: str, stable: str) -> None:
    source = "import torch\n\n\ndef f(g, w, x):\n    return {}\n"
    assert repaired(source.format(written)) == source.format(stable)


@pytest.mark.parametrize(
    "body",
    [
        "    y = g * torch.exp(x)\n    y /= 1 + torch.exp(x)\n    return y",
        "    e = torch.exp(x)\n    e.mul_(g).div_(1 + torch.exp(x))\n    return e",
        "    return (w := g) * torch.exp(x) / (1 + torch.exp(x)) + w",
        "    e = x.exp_()\n    return e / (1 + e)",
        "    e = torch.exp(x, out=g)\n    return e / (1 + e)",
        "    e = (w := torch.exp(x))\n    return e / (1 + e) + w",
        "    y = torch.div(torch.exp(x), 1 + torch.exp(x), out=g)\n    return g",
    ],
)
def test_what_also_changes_or_names_something_is_left(body: str) -> None:
    source = f"import torch\n\n\ndef f(g, x):\n{body}\n"
    assert repaired(source) == source


def test_only_what_computes_the_same_is_written_unless_more_is_asked_for() -> None:
    source = """\
        import jax.numpy as jnp


        def f(a, b, c):
            return (-b + jnp.sqrt(b**2 - 4 * a * c)) / (2 * a)
        """
    assert repaired(source) == textwrap.dedent(source)
    assert "2 * c / (-b - jnp.sqrt(b ** 2 - 4 * a * c))" in repaired(source, unsafe=True)


def test_columns_count_letters_and_lines_end_where_python_ends_them() -> None:
    source = 'import numpy as np\n\n\ndef f(x):\n    """A form feed: \x0c."""\n    s = "größe"; return s, np.log(1 + np.exp(x))\n'
    assert repaired(source).endswith('s = "größe"; return s, np.logaddexp(x, 0.0)\n')
