"""Calls of TensorFlow functions: what follows an argument that is left out goes by its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Signature

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
