"""Points in `--at` that fit no gradient: a typo must not pass for a check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gradcheck_cli.contract.report import Finding, Gradient
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import AskedPoint
from gradcheck_cli.project.rule_pages import find


def unmatched(
    asked: Sequence[AskedPoint], gradients: Sequence[Gradient], display: str
) -> list[Finding]:
    """A finding for each name or length that no argument has; they stand on the first line of a file."""
    sizes: dict[str, set[int]] = {}
    for item in (item for gradient in gradients for item in gradient.inputs):
        sizes.setdefault(item.path, set()).add(math.prod(item.shape))
    if not sizes:
        return []  # nothing was tried at all, which is told elsewhere
    problems = dict.fromkeys(problem for point in asked for problem in _misfits(point, sizes))
    rule = find(RuleName.UNKNOWN_ARGUMENT)
    return [rule.finding(display, 1, problem) for problem in problems]


def _misfits(point: AskedPoint, sizes: Mapping[str, set[int]]) -> Iterator[str]:
    """Why numbers fit no argument that was tried."""
    for name, numbers in point.numbers.items():
        if name not in sizes:
            names = ", ".join(sorted(sizes))
            yield f"--at {name}=…: no gradient has an argument `{name}` (there are {names})"
        elif len(numbers) not in {1, *sizes[name]}:
            tried = ", ".join(map(str, sorted(sizes[name])))
            yield f"--at {name}=[…] has {len(numbers)} numbers; `{name}` was tried with {tried}: give one for all, or so many"
