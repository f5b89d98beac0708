"""Custom ops that a traced body calls run as their bodies say: torch hands them over below its modes."""

from __future__ import annotations

from typing import Any

import torch

from gradcheck_cli.frameworks.torch.bridge.traced_device import NAME
from gradcheck_cli.frameworks.torch.private_api import custom_op_named, parts_of


def run_bodies(environment: Any, *classes: Any) -> None:
    """Let what torch hands over with tensors of these classes be run by the op's body, else as any operation."""

    def dispatched(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        op = custom_op_named(func.name().split(".")[0])
        if op is None:
            return environment.dispatch(func, types, args, kwargs)
        with environment, torch.device(NAME):
            return parts_of(op).body(*args, **(kwargs or {}))

    for cls in classes:
        cls.__torch_dispatch__ = classmethod(dispatched)
