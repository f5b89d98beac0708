"""Numbers that torch itself makes while torchax traces: constants of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcheck_cli.frameworks.torch.private_api import DisableTorchFunction, no_dispatch


def constant(environment: Any, make: Callable[[], Any]) -> Any:
    """A tensor that is made outside of every mode, as a constant of the trace."""
    from torchax.tensor import Tensor

    with no_dispatch(), DisableTorchFunction():
        return Tensor(environment.t2j_copy(make()), environment)


def operation(func: Any) -> str:
    """The name of what is dispatched, a function or an overload of one."""
    return str(getattr(getattr(func, "overloadpacket", func), "__name__", ""))
