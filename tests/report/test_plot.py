"""Bits over one argument, on one line."""

from __future__ import annotations

from gradcheck_cli.contract.report import Profile
from gradcheck_cli.report.text.plot import plot_lines


def profile(*bits: float) -> Profile:
    at = [float(i) for i in range(len(bits))]
    return Profile(argument="x", at=list(at), bits=list(bits), full=24.0)


def test_full_bits_are_full_blocks_and_none_are_the_lowest() -> None:
    (line,) = plot_lines(profile(0.0, 12.0, 24.0), 80)
    assert line == "    bits  x = 0e0 ▁▅█ 2e0"


def test_a_cell_is_as_low_as_the_worst_of_its_points() -> None:
    (line,) = plot_lines(profile(*[24.0] * 480, 0.0, *[24.0] * 479), 80)
    assert line.count("█") == 47
    assert line.count("▁") == 1


def test_a_narrow_page_has_fewer_cells() -> None:
    (line,) = plot_lines(profile(*[24.0] * 100), 60)
    assert line.count("█") == 30
    assert len(line) <= 60


def test_one_point_is_no_plot() -> None:
    assert list(plot_lines(profile(1.0), 80)) == []
