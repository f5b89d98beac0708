"""What was measured of a subject otherwise than it was asked, or not at all; each with why."""

from __future__ import annotations

from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.device import asked_for

_NOT_CONVERGED = (
    "a loop that stops by `break` elsewhere came to its last trip there: it has not converged"
)
_ELSEWHERE = "its floats on a GPU or TPU"
_INTERPRETED = "its kernels are interpreted here: the formula is theirs wherever they run, the digits need not be"
_ON_THE_GPU = "its floats on the GPU"


def left_out(m: Measurements) -> tuple[tuple[str, str], ...]:
    """The probes at which an iteration has not come to its end, and floats that are not those asked for."""
    left_out: list[tuple[str, str]] = []
    if m.run_out:
        what = f"{len(m.run_out)} of {m.count} probes at {m.subject.signature.describe()}"
        left_out.append((what, _NOT_CONVERGED))
    if asked_for() == "gpu" and m.subject.stays_on_cpu:
        left_out.append((_ON_THE_GPU, m.subject.stays_on_cpu))
    if m.subject.kernels:
        left_out.append((_ELSEWHERE, _INTERPRETED))
    return tuple(left_out)
