"""Words by which a name or a text says that a derivative is meant to be another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.clues.deviates import deviates, on_purpose, straight_through


def gradient_reversal(x: Any) -> Any: ...
def stop_grad(x: Any) -> Any: ...
def auxiliary(x: Any) -> Any:
    """Hands x on, and blocks gradients."""


def softplus(x: Any) -> Any:
    """The softplus, of values clipped at 30."""


def averaged(x: Any) -> Any: ...


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (gradient_reversal, "revers"),
        (stop_grad, "stop"),
        (auxiliary, "block"),
        (softplus, ""),
        (averaged, ""),
    ],
)
def test_the_word_that_says_so(function: Callable[..., Any], word: str) -> None:
    assert deviates(function, ()) == word


def bounded(x: Any) -> Any:
    """The larger of x and 0. The gradient deliberately passes below 0."""


def sampled(x: Any) -> Any:
    """Deliberately slow, for x of any shape."""


def test_only_what_is_said_of_the_derivative_is_said_outright() -> None:
    assert on_purpose(bounded, (), ())[0] == "deliberately"
    assert on_purpose(sampled, (), ())[0] == ""


def detached(x: Any) -> Any:
    """The weight enters the value, yet no gradient flows through it."""


def held(x: Any) -> Any:
    """A weighted loss. The backward pass treats `w ** beta` as a constant."""


def stable(x: Any) -> Any:
    """The gradient is numerically stable by design."""


def kept_stable(x: Any) -> Any:
    """The gradient is deliberately clipped, which keeps training stable."""


def modified(x: Any) -> Any:
    """By design the gradient passes where x is clipped."""


def moved(x: Any) -> Any:
    # It does nothing in the forward pass, but it transforms the
    # gradients into other coordinates.
    return x


def guided(x: Any) -> Any:
    """Only the positive part of the incoming gradient goes through."""


def soft(x: Any) -> Any:
    """The backward pass is a surrogate by intent."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (soft, "by intent"),
        (detached, "no gradient flows"),
        (held, "treats `w ** beta` as a constant"),
        (stable, ""),
        (kept_stable, "deliberately"),
        (modified, "by design"),
        (moved, ""),
        (guided, "positive part of the incoming gradient"),
    ],
)
def test_what_is_held_constant_deviates_and_what_is_stable_does_not(
    function: Callable[..., Any], words: str
) -> None:
    assert on_purpose(function, (), ())[0] == words


def boxed(box: Any, x: Any) -> Any:
    """Positions in a box."""


def boxed_jvp(primals: Any, tangents: Any) -> Any:
    """Gradients flow through unchanged, without being multiplied by the box."""


def test_what_the_rule_says_of_itself_counts() -> None:
    assert on_purpose(boxed, [boxed_jvp], ())[0] == "flow through unchanged"
    assert on_purpose(boxed, [], ())[0] == ""


def aperture(image: Any, weights: Any) -> Any:
    """The flux in an aperture. The weights are geometry and are held constant: they get no gradient."""


def test_what_is_held_constant_goes_with_the_arguments_that_the_sentence_names() -> None:
    words, names = on_purpose(aperture, (), ("image", "weights"))
    assert (words, names) == ("held constant", {"weights"})
    assert on_purpose(held, (), ("x", "w"))[1] == {"w"}
    assert on_purpose(bounded, (), ("x",))[1] == frozenset()


def normed(x: Any, w: Any) -> Any:
    """A norm. The weights w are held constant: they get no gradient.

    The scale is treated as a constant in the gradient.
    """


def lettered(a: Any, x: Any) -> Any:
    """A gain. The scale is held as a constant in the gradient."""


def test_a_second_sentence_that_names_nothing_is_of_all() -> None:
    assert on_purpose(normed, (), ("x", "w")) == ("held constant", frozenset())
    assert on_purpose(lettered, (), ("a", "x"))[1] == frozenset()
    assert on_purpose(normed, [boxed_jvp], ("x", "w"))[0] == "flow through unchanged"


def in_its_entry(x: Any, times: Any) -> Any:
    """A decline.

    Parameters
    ----------
    x : array, shape (wells,)
        The rate at first. Its gradient is exact.
    times : array, shape (steps,)
        Times since then, not negative.  Treated as data; no
        gradient flows to it.
    """


def of_the_whole(x: Any, times: Any) -> Any:
    """A decline.

    Args:
      x: the rate at first.

    No gradient flows through the tail.
    """


def test_what_gets_no_gradient_is_the_argument_in_whose_entry_it_stands() -> None:
    assert on_purpose(in_its_entry, (), ("x", "times")) == ("no gradient flows", {"times"})
    assert on_purpose(of_the_whole, (), ("x", "times")) == ("no gradient flows", frozenset())


def test_what_stands_in_the_entry_of_another_function_s_argument_is_not_about_these() -> None:
    assert on_purpose(in_its_entry, (), ("x",)) == ("", frozenset())


def of_the_result(x: Any) -> Any:
    """A clip.

    Returns
    -------
    out : array
        The values. No gradient flows where they are large.
    """


def of_the_backward(x: Any) -> Any:
    """A clip.

    forward: the values.
    backward: no gradient flows where they are large.
    """


def without_stops(x: Any, times: Any) -> Any:
    """A decline.

    Args:
        x: the rate at first, whose gradient is exact
        times: times since then, no gradient flows to it
    """


def below_the_list(x: Any, mask: Any) -> Any:
    """A mean.

    Args:
        x: the input.
        mask: where it counts.

    Note that no gradient flows where it is clipped.
    """


@pytest.mark.parametrize("function", [of_the_result, of_the_backward])
def test_what_stands_outside_of_the_parameters_is_of_the_whole(function: Any) -> None:
    assert on_purpose(function, (), ("x",)) == ("no gradient flows", frozenset())


def test_an_entry_ends_where_the_next_one_begins() -> None:
    assert on_purpose(without_stops, (), ("x", "times"))[1] == {"times"}
    assert on_purpose(below_the_list, (), ("x", "mask"))[1] == frozenset()


class RoundSTE:
    @staticmethod
    def forward(x: Any) -> Any: ...


class Step:
    @staticmethod
    def forward(x: Any) -> Any:
        """Straight-through: the step of x, handed on as it is backward."""
        return x


class TESTED:
    @staticmethod
    def forward(x: Any) -> Any:
        """A step, and what comes straight after it."""
        return x


@pytest.mark.parametrize(("owner", "said"), [(RoundSTE, True), (Step, True), (TESTED, False)])
def test_what_says_that_a_step_is_taken_for_the_identity(owner: Any, said: bool) -> None:
    assert straight_through(owner.forward, ()) is said
