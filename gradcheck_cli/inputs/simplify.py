"""Hypothesis: the simplest witness of a finding, and the search for floats that give another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from gradcheck_cli.project.reads import SCRATCH

Array = np.ndarray[Any, Any]
Holds = Callable[[list[Array]], bool]

# In the order of simplicity; the witness's own numbers come last.
_PLAIN = (0.0, 1.0, -1.0, 2.0, 100.0)
_MOST_ELEMENTS = 64
_EXAMPLES = 120
_REACHES = (1.0, 10.0, 100.0, 1e4)  # each is tried as often as the whole reach


def simplest(point: Sequence[Array], holds: Holds) -> list[Array] | None:
    """The point with as many plain numbers as the finding allows; None if nothing simpler holds."""
    own = np.concatenate([p.reshape(-1) for p in point]).tolist()
    if not 1 < len(own) <= _MOST_ELEMENTS:
        return None
    from hypothesis import strategies as st

    choices = [st.sampled_from([*(v for v in _PLAIN if v != x), x]) for x in own]
    flat = _find(st.tuples(*choices), lambda flat: holds(_shaped(flat, point)), _EXAMPLES)
    return None if flat is None or list(flat) == own else _shaped(flat, point)


def first_found(
    count: int,
    width: Literal[16, 32, 64],
    reach: float,
    wrong: Callable[[list[float]], bool],
    examples: int,
) -> list[float] | None:
    """So many floats of that width at which something is wrong, as simple as can be."""
    from hypothesis import strategies as st

    cast: Any = {16: np.float16, 32: np.float32, 64: np.float64}[width]
    tops = [float(cast(top)) for top in (*_REACHES, reach) if top <= reach]
    number = st.one_of([st.floats(-t, t, width=width, allow_subnormal=False) for t in tops])
    numbers = _find(st.lists(number, min_size=count, max_size=count), wrong, examples)
    return None if numbers is None else list(numbers)


def _find(strategy: Any, holds: Callable[[Any], bool], examples: int) -> Any | None:
    """An example that Hypothesis finds, derandomized and without a trace on the disk."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, Verbosity
    from hypothesis.configuration import set_hypothesis_home_dir
    from hypothesis.errors import Flaky, NoSuchExample

    set_hypothesis_home_dir(SCRATCH)  # nothing is written beside the user's files
    settings = hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    try:
        return hypothesis.find(strategy, holds, settings=settings)
    except (NoSuchExample, Flaky):  # none, or none that stays one: other numbers at each call
        return None


def _shaped(flat: Sequence[float], point: Sequence[Array]) -> list[Array]:
    """Numbers in the shapes of the arguments."""
    arrays, start = [], 0
    for array in point:
        arrays.append(np.array(flat[start : start + array.size]).reshape(array.shape))
        start += array.size
    return arrays
