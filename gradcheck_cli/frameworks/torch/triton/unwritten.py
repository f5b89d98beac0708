"""Memory that nobody has written: what `torch.empty` gives is NaN here, and known to be unwritten place by place.

Whatever happens to lie there on a GPU is read, or returned, as if it were a result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from gradcheck_cli.frameworks.torch.private_api import is_functorch_wrapped

_TAG = "_cgcheck_unwritten"
_MAKERS = ((torch, ("empty", "empty_like", "empty_strided")), (torch.Tensor, ("new_empty",)))

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Unwritten:
    """The places of a tensor's memory at which nothing was stored since it was made."""

    places: Array
    version: int  # of the tensor, which torch raises when it writes to it


def mark_what_is_empty() -> None:
    """From now on tensors without contents are marked, wherever they are made."""
    for home, names in _MAKERS:
        for name in names:
            setattr(home, name, _marking(getattr(home, name)))


def _marking(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        tensor = make(*args, **kwargs)
        if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point() or "out" in kwargs:  # fmt: skip
            return tensor
        if hasattr(tensor, "_elem"):
            tensor._elem = jnp.full_like(tensor._elem, jnp.nan)
            return tensor
        plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided
        if not plain or tensor.device.type != "cpu" or tensor.is_inference() or tensor.element_size() < 2:  # fmt: skip
            return tensor
        if is_functorch_wrapped(tensor):
            return tensor
        with torch.no_grad():
            tensor.fill_(torch.nan)
        storage = tensor.untyped_storage()  # which all views of the tensor share
        size = storage.nbytes() // tensor.element_size()
        setattr(storage, _TAG, Unwritten(np.ones(size, bool), tensor._version))
        return tensor

    return made


def places_of(tensor: Any) -> Array | None:
    """The unwritten places of a tensor's storage, to be crossed out by who writes; None where torch has written to it."""
    if hasattr(tensor, "_elem"):  # it is traced, and has no storage
        return None
    tag: Unwritten | None = getattr(tensor.untyped_storage(), _TAG, None)
    return None if tag is None or tag.version != tensor._version else tag.places


def first_unwritten(tensor: Any) -> int | None:
    """The first element of a tensor that nobody has written."""
    places = places_of(tensor)
    if places is None or not places.any():
        return None
    own = torch.as_strided(torch.arange(places.size), tensor.shape, tensor.stride(), tensor.storage_offset())  # fmt: skip
    still_so = tensor.detach().isnan().cpu().numpy().reshape(-1)  # numpy, say, writes unseen
    open_ones = places[own.numpy().reshape(-1)] & still_so
    return int(open_ones.argmax()) if open_ones.any() else None
