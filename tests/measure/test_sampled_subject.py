"""A large gradient is judged in part: what is seen of it is what the whole would show."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.contract.limits import PART_STEPS
from gradcheck_cli.measure import sampled_subject
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.sampled_subject import Part, affordable_points, part_of, too_large
from gradcheck_cli.measure.sources import sources
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.walk import walk
from gradcheck_cli.subject.results import JIT, Traces
from tests.support import jax_subject as subject

FREQUENCIES = np.linspace(0.0, 30.0, 500).astype(np.float32)


def waves(x: Any) -> Any:
    """Good but for one component, which float32 cannot do."""
    return jnp.where(jnp.arange(500) == 417, 1 - jnp.cos(x * 1e-5), jnp.sin(x * FREQUENCIES))


def test_a_part_shows_the_numbers_of_the_whole() -> None:
    whole = subject(waves, ())
    points = [np.float32([0.5, 1.0, 2.0]).astype(np.float64)]
    chosen, how = part_of(whole, points, seed=0)
    assert 417 in chosen.sample.outputs[0], "what looks worst is judged"
    assert "3 points" in how
    cotangents = [np.ones((3, 500))]
    seen = chosen.run(points, cotangents)[JIT].value[0]
    everything = whole.run(points, cotangents)[JIT].value[0]
    assert np.array_equal(seen, everything[:, chosen.sample.outputs[0]])
    few, all_ = chosen.traces().primal, whole.traces().primal
    assert few is not None
    assert all_ is not None
    with working(128):
        args = [exact(a) for a in (*points, *cotangents)]
        ours, theirs = walk(few, Balls(3), args)[0], walk(all_, Balls(3), args)[0]
    picked = theirs[:, chosen.sample.outputs[0]]
    assert all(a.overlaps(b) for a, b in zip(ours.flat, picked.flat, strict=True))


def test_what_is_large_is_known_before_it_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = subject(waves, ())
    assert not too_large(whole, 100)
    assert affordable_points(whole, 250) == 250
    assert too_large(whole, 100_000)
    few = dataclasses.replace(PART_STEPS, value=100_000)
    monkeypatch.setattr(sampled_subject, "PART_STEPS", few)
    assert 8 <= affordable_points(whole, 250) < 20


def test_a_part_of_a_part_in_float64() -> None:
    chosen, _ = part_of(subject(waves, ()), [np.ones(2)], seed=0)
    wide = chosen.in_float64()
    assert isinstance(wide, Part)
    assert wide.sample == chosen.sample


def test_differences_of_a_part_are_those_of_the_whole() -> None:
    chosen, _ = part_of(subject(waves, ()), [np.float32([0.5, 1.0])], seed=0)
    chosen._traces = Traces(None, None, None, "not traced")
    truth = sources(chosen).primal
    rows, weights = [np.array([0.5, 1.0])], [np.ones((2, 500))]
    found = truth.evaluate(rows, weights, Ask(24, ties=True))
    assert found.values[0].shape == (2, len(chosen.sample.outputs[0]))
    slope = np.where(np.arange(500) == 417, 1e-10 * 0.5, FREQUENCIES * np.cos(0.5 * FREQUENCIES))
    assert found.gradients[0].shape == (2, 1)
    assert abs(float(found.gradients[0][0, 0].mid()) - slope.sum()) < 1e-3
