"""What code around kernels asks of a GPU that is not there: its answers are those of one of two processors."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

_PROPERTIES = SimpleNamespace(
    multi_processor_count=2, major=8, minor=0, name="interpreter", total_memory=1 << 34, warp_size=32,
    shared_memory_per_block=49152, shared_memory_per_block_optin=101376, L2_cache_size=1 << 22,
    max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, gcnArchName="",
)  # fmt: skip
_OF_TRITON = {
    "multiprocessor_count": 2, "max_shared_mem": 101376, "warpSize": 32, "max_num_regs": 65536,
    "sm_clock_rate": 1, "mem_clock_rate": 1, "mem_bus_width": 1,
}  # fmt: skip


class _Driver:
    """Triton's driver where there is none: kernels are interpreted, so only its answers are wanted."""

    utils = SimpleNamespace(get_device_properties=lambda *_: dict(_OF_TRITON))

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 80, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one."""

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        return lambda call, **_: 0.0

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1)

    def clear_cache(self, cache: Any) -> None:
        """There is none."""


class _Nowhere(nullcontext[None]):
    """A device, or a stream on one, while it is the current one."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(None)


def answer() -> None:
    """From now on questions about a GPU have answers; whether there is one is still answered with no."""
    triton.runtime.driver.set_active(_Driver())
    if torch.cuda.is_available():
        return
    cuda: Any = torch.cuda
    cuda.current_device = lambda: 0
    cuda.get_device_properties = lambda *_, **__: _PROPERTIES
    cuda.get_device_capability = lambda *_, **__: (8, 0)
    cuda.get_device_name = lambda *_, **__: _PROPERTIES.name
    cuda.current_stream = lambda *_, **__: SimpleNamespace(cuda_stream=0)
    for name in ("synchronize", "set_device", "empty_cache"):
        setattr(cuda, name, lambda *_, **__: None)
    for name in ("device", "device_of", "stream"):
        setattr(cuda, name, _Nowhere)
