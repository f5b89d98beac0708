"""Calls of TensorFlow functions: what follows an argument that is left out goes by its name."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.signature import OMITTED, Built, Fixed, Leaf, Signature
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong

pytestmark = pytest.mark.needs("tensorflow")


def test_what_follows_an_argument_that_is_left_out_goes_by_its_name() -> None:
    import tensorflow as tf

    from gradcheck_cli.frameworks.tensorflow.call import Call

    def function(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    how = Fixed("sum", "'sum'", "test")
    x = Leaf("x", (2,), "test")
    signature = Signature(
        (("x", x), ("axis", Fixed(0, "0", "test")), ("weights", OMITTED), ("how", how))
    )
    gradient: Any = SimpleNamespace(draws=SimpleNamespace(start_over=lambda: None))
    args, kwargs = Call(gradient, signature, tf.float32).ask(function, [np.ones(2)])
    assert (len(args), args[1], kwargs) == (2, 0, {"how": "sum"})


def test_gradients_of_an_object_are_those_of_its_parts() -> None:
    import tensorflow as tf

    from gradcheck_cli.frameworks.tensorflow.call import Call

    parts = (Leaf("t.a", (2,), "test"), Leaf("t.b", (2,), "test"))
    table = Built("T", tuple, parts, ("a", "b"))
    signature = Signature((("t", table), ("x", Leaf("x", (), "test"))))

    def pulled(*gradients: float | None) -> list[float | None]:
        gradient: Any = SimpleNamespace()
        call = Call(gradient, signature, tf.float32)
        return call.pulled_back([], lambda: list(gradients), [])

    assert pulled(1.0, 2.0, 3.0) == [1.0, 2.0, 3.0]
    assert pulled(None, 3.0) == [None, None, 3.0]  # to TensorFlow it is one thing


def test_what_runs_eagerly_only_says_so_itself_in_a_graph() -> None:
    import tensorflow as tf

    from gradcheck_cli.frameworks.shared.other_calls import named
    from gradcheck_cli.frameworks.tensorflow.other_calls import _Ways
    from gradcheck_cli.subject.user_code import UserCodeError

    class Ways(_Ways):
        def __init__(self, function: Any) -> None:
            self.function = function

        def primal(self, tensors: Any) -> list[Any]:
            return [self.function(*tensors)]

    class Placed:
        def placed(self) -> AbstractContextManager[None]:
            return nullcontext()

    def blamed(function: Any) -> tuple[Severity, bool]:
        def run(point: Any, cotangent: Any) -> Any:
            with Ways(function)._blamed([tf.ones(3)]):
                raise UserCodeError(AttributeError("no numpy"))

        with pytest.raises(WentWrong) as raised:
            named(OtherCall("inside tf.function", run), Placed()).run([], [])
        return raised.value.severity, "the function itself raises" in raised.value.error

    variable = tf.Variable(2.0)
    assert blamed(lambda x: tf.constant(np.sqrt(x.numpy()))) == (Severity.NOTE, True)
    assert blamed(tf.sqrt) == (Severity.ERROR, False)
    assert blamed(lambda x: variable * x) == (Severity.ERROR, False)
