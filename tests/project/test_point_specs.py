"""Points of `--at`: read once, and tried by every gradient that they fit."""

from __future__ import annotations

import pytest

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Gradient, Input, Status
from gradcheck_cli.project.point_specs import parse_point
from gradcheck_cli.run.unmatched_points import unmatched


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("x=100", {"x": [100.0]}),
        ("x=[1, 2.5], y=3", {"x": [1.0, 2.5], "y": [3.0]}),
        ("p['w']=1e-3,q=-2", {"p['w']": [1e-3], "q": [-2.0]}),
        ("x=[1 2.5],y=3", {"x": [1.0, 2.5], "y": [3.0]}),
        ("x=[[1, 2], [-3, 4e1]], p[0]=3", {"x": [1.0, 2.0, -3.0, 40.0], "p[0]": [3.0]}),
    ],
)
def test_numbers_by_name(text: str, numbers: dict[str, list[float]]) -> None:
    assert parse_point(text).numbers == numbers


@pytest.mark.parametrize(
    "text",
    ["", "x", "x=", "x=[]", "x=one", "x=inf", "x=nan", "x=[1", "x=[1],[2]", "x=[1, [2]", "x=['1']"],
)
def test_what_is_no_point_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--at"):
        parse_point(text)


def test_a_point_that_fits_no_gradient_is_a_finding() -> None:
    tried = Gradient(
        id="f", name="f", qualname="f", path="a.py", line=1, framework="jax", kind="custom_vjp",
        backend="jax", device="cpu", dtypes=["float32"], status=Status.CHECKED,
        inputs=[Input(path="x", dtype="float32", shape=[2, 2], domain="", source="a guess")],
    )  # fmt: skip
    points = [parse_point(t) for t in ("x=1", "x=[1, 2, 3, 4]", "x=[1, 2]", "y=3", "y=3")]
    assert [f.message for f in unmatched(points, [tried], "a.py")] == [
        "--at x=[…] has 2 numbers; `x` was tried with 4: give one for all, or so many",
        "--at y=…: no gradient has an argument `y` (there are x)",
    ]
    assert unmatched(points, [], "a.py") == []
