"""What is used of PyTorch that is not public. Tried with torch 2.13.0 and torchax 0.0.13."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch._C import DisableTorchFunction
from torch._C._functorch import is_functorch_wrapped_tensor as is_functorch_wrapped
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._ops import OpOverloadPacket
from torch.autograd.function import _SingleLevelFunction
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_flatten, tree_map_only

__all__ = [
    "CustomOpDef",
    "DisableTorchFunction",
    "OpOverloadPacket",
    "is_functorch_wrapped",
    "no_dispatch",
    "tree_flatten",
    "tree_map_only",
]


class CustomOpParts(NamedTuple):
    """The functions that a custom op was made of; None for those that were not registered."""

    body: Any
    backward: Any
    setup_context: Any


def parts_of(op: Any) -> CustomOpParts:
    return CustomOpParts(op._init_fn, op._backward_fn, op._setup_context_fn)


def custom_op_named(name: str) -> CustomOpDef | None:
    """The custom op of that name with its namespace; None where it is made in another way."""
    found: CustomOpDef | None = OPDEFS.get(name)
    return found


def sets_up_context_apart(cls: Any) -> bool:
    """Has the Function a `setup_context` of its own, and so a forward without `ctx`?"""
    return bool(cls.setup_context is not _SingleLevelFunction.setup_context)


def version_of(tensor: Any) -> int:
    """How often the tensor was written to in place."""
    return int(tensor._version)
