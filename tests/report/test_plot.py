"""Bits over one argument, and what stands where."""

from __future__ import annotations

from gradcheck_cli.contract.report import Profile
from gradcheck_cli.report.text.plot import plot_lines


def profile(*bits: float) -> Profile:
    at = [float(i) for i in range(len(bits))]
    return Profile(argument="x", at=list(at), bits=list(bits), full=24.0)


def test_full_bits_are_full_blocks_and_none_are_the_lowest() -> None:
    line, _ = plot_lines(profile(0.0, 12.0, 24.0), 80)
    assert line == "    bits  x = 0e0 ▁▅█ 2e0"


def test_a_cell_is_as_low_as_the_worst_of_its_points() -> None:
    line, ticks = plot_lines(profile(*[24.0] * 480, 0.0, *[24.0] * 479), 80)
    assert ticks.split() == ["480"]
    assert line.count("█") == 47
    assert line.count("▁") == 1


def test_a_narrow_page_has_fewer_cells() -> None:
    (line,) = plot_lines(profile(*[24.0] * 100), 60)
    assert line.count("█") == 30
    assert len(line) <= 60


def test_one_point_is_no_plot() -> None:
    assert list(plot_lines(profile(1.0), 80)) == []


def test_zero_and_the_edges_of_what_is_lost_are_named_below_their_cells() -> None:
    at = [
        float(v)
        for v in (*range(-1000, -40, 40), -40, *range(-10, 11), 88.72, *range(100, 2000, 100))
    ]
    bits = [0.0 if -60 < v < -30 or v > 80 else 24.0 for v in at]
    line, ticks = plot_lines(Profile(argument="x", at=list(at), bits=bits, full=24.0), 80)
    named = {text: ticks.index(text) + len(text) // 2 for text in ticks.split()}
    assert list(named) == ["-40", "0", "89"]
    assert line[named["-40"]] == "▁" != line[named["-40"] + 1]
    assert line[named["89"]] == "▁" != line[named["89"] - 1]
    assert line[named["0"]] == "█"


def test_zero_at_an_end_is_told_there() -> None:
    (line,) = plot_lines(profile(*[24.0] * 3), 80)
    assert line.endswith("2e0")
    (line,) = plot_lines(
        Profile(argument="x", at=[-2.0, -1.0, 0.0], bits=[24.0] * 3, full=24.0), 80
    )
    assert line.endswith("0e0")


def test_what_reads_alike_is_told_once() -> None:
    at = [99.0, 99.96, 99.98, 100.0, 100.02, 101.0]
    _, ticks = plot_lines(
        Profile(argument="x", at=list(at), bits=[24.0, 24.0, 0.0, 0.0, 24.0, 24.0], full=24.0), 80
    )
    assert ticks.split() == ["100"]
