"""Arguments that a text takes as constants."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.clues.constants import clues, learned


def test_what_is_taken_as_a_constant() -> None:
    def f(q: Any, k: Any, bank: Any) -> None:
        """q, k [N, D], bank [M, D] or None, taken as a constant, the rest has a gradient."""

    assert set(clues(f, ["q", "k", "bank"])) == {"bank"}


def test_what_gets_no_gradient() -> None:
    def f(x: Any, w: Any) -> None:
        """Weighted mean.

        Args:
            x: the values; their gradient is exact.
            w: the weights; they get no gradient.
        """

    assert set(clues(f, ["x", "w"])) == {"w"}


def test_data_of_which_no_derivative_is_returned() -> None:
    def f(score: Any, shares: Any, weight: Any, slope: Any) -> None:
        """Weighted loss.

        Parameters
        ----------
        score : (B,) float
        shares : (B, 3) float
            Shares of the outcomes. Data, no derivative is returned.
        weight : (B,) float
            Row weights. No derivative.
        slope : float
            There is no derivative that is larger. No gradient is returned where clipped, and at
            ties no derivative is defined; the rule needs no gradient of the mask.
        """

    assert set(clues(f, ["score", "shares", "weight", "slope"])) == {"shares", "weight"}


def test_a_constant_of_nature_is_none() -> None:
    def f(x: Any, k: Any) -> None:
        """x: positions (n, 3); k: the spring constant."""

    assert clues(f, ["x", "k"]) == {}


def test_a_remark_in_brackets_is_enough() -> None:
    def f(logits: Any, mask: Any) -> None:
        """logits (rows, classes); mask (rows,) bool (no gradient)."""

    assert set(clues(f, ["logits", "mask"])) == {"mask"}


def test_an_apposition_is_enough() -> None:
    def f(q: Any, cos: Any, sin: Any, c: Any) -> None:
        """Rotates.

        Args:
            q: (T, E)
            cos, sin: (L, R / 2) tables, R <= E, constants. Channels past R pass through.
            c: the scale, a constant of nature
        """

    assert set(clues(f, ["q", "cos", "sin", "c"])) == {"cos", "sin"}


def test_data_are_not_learned() -> None:
    def f(hazard: Any, dt: Any, seen: Any, data: Any) -> None:
        """hazard: (n,) intensity fitted to data of a market.
        dt: (n,) interval lengths, data.
        seen: (n,) counts (observed)
        data: (n,) prices
        """

    assert set(clues(f, ["hazard", "dt", "seen", "data"])) == {"dt", "seen"}


def test_what_a_text_differentiates_is_learned() -> None:
    def f(e: Any, kd: Any, t: Any) -> None:
        """Bound fraction; differentiable in e and `kd` (the one that is fitted). At time t, no gradient for t."""

    assert learned(f, ["e", "kd", "t"]) == {"e", "kd"}


def test_what_a_text_denies_is_not_learned() -> None:
    def f(x: Any, rate: Any, depth: Any) -> None:
        """Decay. We do not return a gradient for rate. The gradient with
        respect to depth is exact.
        """

    assert learned(f, ["x", "rate", "depth"]) == {"depth"}
