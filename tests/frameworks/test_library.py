"""Library functions are offered where they take the leaves, spelled for their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.frameworks.shared.library import Library, Stable, offered
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.subject.refusals import Rejected

TABLE = (
    Stable(np.log1p, "np.log1p({x})", "ct / (1 + {x})"),
    Stable(np.sort, "np.sort({x})", "ct", arrays=True),
    Stable(np.hypot, "np.hypot({x})", "ct"),
)


@dataclass
class Gradient:
    """A gradient whose stand-ins take as many leaves as their functions do."""

    library: Library = field(default_factory=lambda: Library(TABLE, {"np": np}))

    def stand_in(self, stable: Stable) -> Any:
        return Fitter(2 if stable.function is np.hypot else 1)


@dataclass
class Fitter:
    count: int

    def fit(self, signature: Signature, dtype: str) -> Any:
        if len(signature.leaves) != self.count:
            raise Rejected("another number of arguments")
        return self

    def traces(self) -> None: ...


def values(*leaves: Leaf) -> list[str]:
    return [each.value for each in offered(Gradient(), leaves, "float32", lambda text: None)]


def test_a_function_of_arrays_is_not_offered_for_a_number() -> None:
    assert values(Leaf("p", (), "test")) == ["np.log1p(p)"]
    assert values(Leaf("p", (3,), "test")) == ["np.log1p(p)", "np.sort(p)"]


def test_a_function_of_two_is_spelled_with_both_names() -> None:
    assert values(Leaf("a", (), "test"), Leaf("b", (), "test")) == ["np.hypot(a, b)"]


def test_a_derivative_given_as_text_is_a_function_of_its_names_and_the_cotangent() -> None:
    written = Gradient().library.written(["a", "b"], "ct * np.square(a) - b")
    assert written(3.0, 1.0, 2.0) == (17.0,)
