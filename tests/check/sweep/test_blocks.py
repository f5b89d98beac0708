"""What blocks say of millions of floats is what single walks say of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gradcheck_cli.check.sweep.cascade import judged
from gradcheck_cli.check.sweep.chunk import CHUNK
from gradcheck_cli.check.sweep.classes import FINE, NAMES, SUBNORMAL, UNDECIDED
from gradcheck_cli.check.sweep.every_float import floats
from gradcheck_cli.check.sweep.line import line_along
from gradcheck_cli.check.sweep.walks import by_walks
from gradcheck_cli.discover import importing
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.infer.probing import probe
from gradcheck_cli.measure.sources import sources

RULES = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def log1pexp(x):
    return jnp.log(1 + jnp.exp(x))


log1pexp.defvjp(lambda x: (log1pexp(x), jnp.exp(x)), lambda e, g: (g * (1 - 1 / (1 + e)),))


@jax.custom_vjp
def hinge(x):
    return jnp.maximum(1 - x, 0) ** 2 + jnp.floor(x) * 0


hinge.defvjp(lambda x: (hinge(x), x), lambda x, g: (-2 * g * jnp.maximum(1 - x, 0),))


@jax.custom_vjp
def root(x):
    return jnp.sqrt(x)


root.defvjp(lambda x: (root(x), x), lambda x, g: (g * 0.5 / jnp.sqrt(x),))
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "rules_of_lines.py"
    path.write_text(RULES)
    framework = load("jax")
    with framework.recording() as recorded:
        module = importing.import_file(Path(path))
    found, _ = framework.find(module, str(path), recorded, [], lambda p: p == str(path))
    made = {}
    for gradient in found:
        probed = probe(gradient, "float32", framework.hints(gradient))
        subject = next(s for s in probed.subjects if not s.leaves[0].shape)
        made[gradient.name] = line_along(subject, sources(subject), 0)
    return made


def _chunk(line, around, negative):
    first = abs(int(line.fmt.ordinals(around))) // CHUNK * CHUNK
    return judged(line, floats(line.fmt, first, CHUNK, negative))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "around"),
    [("log1pexp", 0.3), ("log1pexp", 90.0), ("log1pexp", 1e20), ("log1pexp", -9.0), ("log1pexp", -17.0),
     ("log1pexp", -70.0), ("hinge", 0.99), ("hinge", 1.0), ("hinge", 100.0), ("root", 2.0), ("root", -2.0)],
)  # fmt: skip
def test_blocks_agree_with_single_walks(lines, name, around):
    line = lines[name]
    chunk = _chunk(line, around, around < 0)
    assert not any((codes == UNDECIDED).any() for codes in chunk.codes)
    places = np.random.default_rng(0).integers(0, len(chunk.xs), 60)
    places = np.unique(np.append(places, [0, len(chunk.xs) - 1]))
    xs = chunk.xs[places].astype(np.float64)
    codes, _ = by_walks(line.subject, line.rungs, line.fmt, [xs], 0)
    for ours, theirs in zip(chunk.codes, codes, strict=True):
        differ = [
            (x, NAMES[a], NAMES[b])
            for x, a, b in zip(xs.tolist(), ours[places].tolist(), theirs.tolist(), strict=True)
            if a != b
        ]
        assert len(differ) <= 2, differ  # forgiveness is a range there, and a sample of it here


def test_what_blocks_leave_open_below_the_smallest_normal_is_not_judged(lines):
    chunk = _chunk(lines["root"], 1e-40, False)
    small = np.abs(chunk.xs) < lines["root"].fmt.tiny
    assert set(np.unique(chunk.codes[1][small])) <= {FINE, SUBNORMAL}
