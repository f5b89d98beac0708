"""From an object to a `TorchGradient`: a Function in either style, or a custom op."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from gradcheck_cli.frameworks.torch.context import Context, with_a_context
from gradcheck_cli.frameworks.torch.fit import fit
from gradcheck_cli.frameworks.torch.gradient import CLASS, CUSTOM_OP, TorchGradient
from gradcheck_cli.frameworks.torch.private_api import parts_of
from gradcheck_cli.subject.results import Place


def of_class(cls: Any, place: Place) -> TorchGradient:
    """A subclass of `torch.autograd.Function`, in either style."""
    forward = with_a_context(cls)
    return TorchGradient(
        name=cls.__name__, kind=CLASS, place=place, primal=cls.forward, rule=cls.apply,
        forward=forward, backward=cls.backward, fitter=fit,
        skipped=1 if forward == cls.forward else 0,
        setup=None if forward == cls.forward else cls.setup_context,
    )  # fmt: skip


def of_custom_op(op: Any, place: Place) -> TorchGradient | None:
    """A `torch.library.custom_op` with `register_autograd`; None if it has no derivative."""
    body, backward, setup = parts_of(op)
    if backward is None:
        return None

    lengths: list[int | None] = []  # of the outputs that are lists, in the last call

    def forward(ctx: Context, *inputs: Any, **keywords: Any) -> Any:
        output = body(*inputs, **keywords)
        outputs = output if isinstance(output, tuple) else (output,)
        lengths[:] = [len(out) if isinstance(out, list) else None for out in outputs]
        if setup is not None and keywords:
            setup(ctx, inputs, keywords, output)
        elif setup is not None:
            setup(ctx, inputs, output)
        return output

    return TorchGradient(
        name=body.__name__, kind=CUSTOM_OP, place=place, primal=body, rule=op, forward=forward,
        backward=lambda ctx, *cotangents: backward(ctx, *_listed(cotangents, lengths)),
        written=backward, fitter=fit, setup=setup,
    )  # fmt: skip


def _listed(cotangents: Sequence[Any], lengths: Sequence[int | None]) -> Iterator[Any]:
    """The cotangents of all outputs, those of a list of tensors in a list, as torch hands them over."""
    supply = iter(cotangents)
    for length in lengths:
        yield next(supply) if length is None else list(itertools.islice(supply, length))
