"""What has no meaning over the reals is not verified there, and is no error of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gradcheck_cli.judge.repair.correction import correction
from gradcheck_cli.judge.repair.trial import Trial
from tests.judge.by_text import module_of
from tests.traced import gradient_of, traced

X = np.array([0.5, -1.5, 2.0])

_RULE = """
import jax
import jax.numpy as jnp
import numpy as np

def on_the_host(x):
    return np.cos(x).astype(x.dtype)

@jax.custom_vjp
def f(x):
    return jnp.sin(x)

def backward(x, g):
    return (-jax.pure_callback(on_the_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * g,)

f.defvjp(lambda x: (f(x), x), backward)
"""


def test_a_change_beside_a_callback_is_not_verified(tmp_path: Path) -> None:
    module = module_of(tmp_path, _RULE)
    trial = Trial(traced(module.f, X, names=("x",)), [0, 1])
    assert not trial.verified(trial.rows())
    assert correction([trial], gradient_of(module.f)) is None
