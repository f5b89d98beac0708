"""Random draws, and windows: the same at every call, and constants of the trace that the call itself would make.

Each call of user code starts from one seed, so value, rule and autograd see the same numbers; while a
program is traced, torch itself draws them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from gradcheck_cli.frameworks.shared.draws import seed
from gradcheck_cli.frameworks.shared.tracing import Untraceable
from gradcheck_cli.frameworks.torch.bridge.native_ops import constant, operation
from gradcheck_cli.subject.device import measuring

_NEW = frozenset({"rand", "randn", "randint", "randperm"})
_WINDOWS = frozenset({"hann_window", "hamming_window", "bartlett_window", "blackman_window", "kaiser_window"})  # fmt: skip
_LIKE = frozenset({"rand_like", "randn_like", "randint_like"})
_IN_PLACE = frozenset(
    {"uniform_", "normal_", "bernoulli_", "exponential_", "random_", "cauchy_", "geometric_", "log_normal_"}
)  # fmt: skip
_DROPOUT = frozenset({"dropout", "native_dropout", "alpha_dropout", "feature_dropout"})
_BY_VALUES = frozenset({"bernoulli", "multinomial", "normal", "poisson", "binomial"})


def start_over() -> None:
    """Make the next call draw from the beginning. `torch.manual_seed` asks every kind of device there might be: a millisecond."""
    torch.default_generator.manual_seed(seed())
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed())


def draws(call: Callable[[], Any]) -> bool:
    """Does this call take random numbers? Asked on the CPU."""
    start_over()
    before = torch.random.get_rng_state()
    with measuring(on=False):
        call()
    return not torch.equal(before, torch.random.get_rng_state())


def draw_natively(environment: Any) -> None:
    """Operations of torchax's environment that draw are torch's own."""
    dispatch = environment.dispatch
    native = functools.partial(constant, environment)

    def drawing(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = operation(func)
        options = {k: v for k, v in (kwargs or {}).items() if k not in ("device", "pin_memory", "layout")}  # fmt: skip
        if name in _NEW or name in _WINDOWS:
            return native(lambda: func(*args, **options))
        if name in _LIKE:
            like, rest = args[0], args[1:]
            kind = options.pop("dtype", None) or like.dtype
            return native(
                lambda: func(torch.empty(tuple(like.shape), dtype=kind), *rest, **options)
            )
        if name in _IN_PLACE:
            target, rest = args[0], args[1:]
            if any(isinstance(a, torch.Tensor) for a in (*rest, *options.values())):
                raise Untraceable(f"what `{name}` draws depends on its inputs")
            shape, kind = tuple(target.shape), target.dtype
            return target.copy_(native(lambda: func(torch.empty(shape, dtype=kind), *rest, **options)))  # fmt: skip
        if name in _DROPOUT:
            return _dropped(func, native, args, options)
        if name in _BY_VALUES:
            raise Untraceable(f"what `{name}` draws depends on its inputs")
        return dispatch(func, types, args, kwargs)

    environment.dispatch = drawing


def _dropped(func: Any, native: Callable[[Callable[[], Any]], Any], args: Any, options: Any) -> Any:
    """The input times what is kept of ones."""
    x, *rest = args
    shape, kind = tuple(x.shape), x.dtype
    if operation(func) == "alpha_dropout":
        raise Untraceable("`alpha_dropout` is not only a mask")
    if operation(func) != "native_dropout":
        return x * native(lambda: func(torch.ones(shape, dtype=kind), *rest, **options))
    kept = native(lambda: func(torch.ones(shape, dtype=kind), *rest, **options)[0])
    return x * kept, kept != 0
