"""Plain arguments over all judged calls: which moved, and which never did."""

from __future__ import annotations

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.settings_tried import settings_tried
from gradcheck_cli.contract.report import Input


def call(**plain: str) -> tuple[Input, ...]:
    array = Input(path="x", dtype="float32", shape=[3], domain="[0, 1]", source="test")
    return (
        array,
        *(
            Input(path=p, dtype="fixed", shape=[], domain=d, source="test")
            for p, d in plain.items()
        ),
    )


def test_settings_of_one_value_are_told_with_it() -> None:
    calls = (call(norm="'ortho'", axis="-1"), call(norm="'ortho'", axis="0"))
    tried = settings_tried(GradientOutcome(inputs=calls))
    assert tried.moved == ("axis",)
    assert tried.still == (("norm", "'ortho'"),)


def test_what_is_no_number_flag_or_word_is_no_setting() -> None:
    calls = (call(key="key(0)", f="tanh", weight="None", name="'sum'", tol="1e-13", max_iter="60"),)
    tried = settings_tried(GradientOutcome(inputs=calls))
    assert (tried.moved, tried.still) == ((), ())


def test_what_is_an_array_elsewhere_has_moved() -> None:
    calls = (call(scale="1.0"), (Input(path="scale", dtype="float32", shape=[], domain="", source=""),))  # fmt: skip
    assert settings_tried(GradientOutcome(inputs=calls)).moved == ("scale",)
