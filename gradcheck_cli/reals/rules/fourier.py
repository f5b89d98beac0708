"""Discrete Fourier transforms, axis by axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.rule import Rule

Array = np.ndarray[Any, Any]


def _fft(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """Real transforms keep half of the last axis; its other half is the conjugate."""
    (x,) = values
    kind = step.params["fft_type"].name
    lengths = step.params["fft_lengths"]
    axes = list(range(x.ndim - len(lengths), x.ndim))
    if kind == "RFFT":
        x = domain.dft(domain.as_kind("c", "f", x), axes[-1], inverse=False)
        x = np.take(x, range(lengths[-1] // 2 + 1), axes[-1])
    elif kind != "IRFFT":
        x = domain.dft(x, axes[-1], inverse=kind == "IFFT")
    for axis in reversed(axes[:-1]):
        x = domain.dft(x, axis, inverse=kind in ("IFFT", "IRFFT"))
    if kind == "IRFFT":
        x = domain.dft(_whole(domain, x, axes[-1], lengths[-1]), axes[-1], inverse=True)
        x = domain.complex_unary("real", x)
    return [x]


def _whole(domain: Any, half: Array, axis: int, length: int) -> Array:
    """The whole spectrum of a real signal; imaginary parts that it cannot have are dropped."""
    half = np.moveaxis(half, axis, -1)
    real = domain.as_kind("c", "f", domain.complex_unary("real", half))
    alone = [k for k in range(half.shape[-1]) if (2 * k) % length == 0]
    half = half.copy()
    half[..., alone] = real[..., alone]
    rest = [length - k for k in range(half.shape[-1], length)]
    mirrored = domain.complex_unary("conj", half[..., rest])
    return np.moveaxis(np.concatenate([half, mirrored], axis=-1), -1, axis)


TABLE: dict[str, Rule] = {"fft": _fft}
