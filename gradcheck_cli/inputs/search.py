"""The simplest witness: hypothesis shrinks the numbers of an array while the finding holds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Holds = Callable[[list[Array]], bool]

# In the order of simplicity; the witness's own numbers come last.
_PLAIN = (0.0, 1.0, -1.0, 2.0, 100.0)
_MOST_ELEMENTS = 64
_EXAMPLES = 120


def simplest(point: Sequence[Array], holds: Holds) -> list[Array] | None:
    """The point with as many plain numbers as the finding allows; None if nothing simpler holds."""
    own = np.concatenate([p.reshape(-1) for p in point])
    if not 1 < own.size <= _MOST_ELEMENTS:
        return None
    import hypothesis
    from hypothesis import HealthCheck, Phase, Verbosity
    from hypothesis import strategies as st
    from hypothesis.configuration import set_hypothesis_home_dir
    from hypothesis.errors import NoSuchExample

    set_hypothesis_home_dir(tempfile.gettempdir())  # nothing is written beside the user's files
    choices = [st.sampled_from([*(v for v in _PLAIN if v != x), x]) for x in own.tolist()]
    settings = hypothesis.settings(
        max_examples=_EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    try:
        found = hypothesis.find(
            st.tuples(*choices), lambda flat: holds(_shaped(flat, point)), settings=settings
        )
    except NoSuchExample:
        return None
    return _shaped(found, point)


def _shaped(flat: Sequence[float], point: Sequence[Array]) -> list[Array]:
    """Numbers in the shapes of the arguments."""
    made, start = [], 0
    for array in point:
        made.append(np.array(flat[start : start + array.size]).reshape(array.shape))
        start += array.size
    return made
