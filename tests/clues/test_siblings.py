"""What the rest of the file says of a parameter of the same name."""

from __future__ import annotations

import textwrap
from pathlib import Path

from gradcheck_cli.clues.siblings import single_elsewhere
from tests.judge.by_text import module_of

SOURCE = """
class Distance:
    '''Distances of points x (B, D) and y (M, D).

    Args:
        curv: scalar tensor, c > 0
        gain: scalar
    '''

    def forward(self, x, y, curv, gain):
        return x


def scaled(x, gain):
    '''x (n, d), gain (d,).'''
    return x


def lifted(v, curv, gain, k):
    return v
"""


def test_a_single_number_is_one_where_no_other_text_says_else(tmp_path: Path) -> None:
    module = module_of(tmp_path, textwrap.dedent(SOURCE))
    assert single_elsewhere(module.lifted, ["v", "curv", "gain", "k"]) == {"curv"}


EXAMPLES = """
def drop(load, height, winds, mass):
    return load


def example():
    return dict(height=8400.0, winds=[2.0, 5.0]), {"mass": -90, "load": 1.0}


PLACES = {"load": 0, "pull": 1}


def other(ax):
    ax.plot(pull=0.5)
    return dict(load=jnp.array([1.0]), height=measured)
"""


def test_a_number_in_an_example_is_a_single_number(tmp_path: Path) -> None:
    module = module_of(tmp_path, textwrap.dedent(EXAMPLES))
    names = ["load", "height", "winds", "mass", "pull"]
    assert single_elsewhere(module.drop, names) == {"height", "mass"}
