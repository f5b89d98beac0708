"""What the text of another function of the file says of a parameter of the same name."""

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
