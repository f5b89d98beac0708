"""Grading operators registered as torch ops, so that a look can be fitted to reference frames.

Frames are (N, 3, H, W), scene values, RGB order. Grading controls are per frame and channel, (N, 3),
unless something else is said.
"""
from typing import NamedTuple

import torch
from torch import Tensor
from torch.library import custom_op

REC709 = (0.2126, 0.7152, 0.0722)


class Look(NamedTuple):
    slope: Tensor       # (N, 3), positive
    offset: Tensor      # (N, 3)
    power: Tensor       # (N, 3), positive
    saturation: Tensor  # (N,), 1 leaves colours alone


def _px(control: Tensor) -> Tensor:
    return control[..., None, None]


def _luma(frame: Tensor) -> Tensor:
    w = frame.new_tensor(REC709)
    return torch.einsum("nchw,c->nhw", frame, w)[:, None]


def _powered(base: Tensor, power: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """base ** power with zero below black; also its mask and a safe base."""
    lit = base > 0
    safe = torch.where(lit, base, torch.ones_like(base))
    return torch.where(lit, safe.pow(power), torch.zeros_like(base)), lit, safe


# -- ASC colour decision list ------------------------------------------------------------------

@custom_op("grading::asc_cdl", mutates_args=())
def asc_cdl(frame: Tensor, slope: Tensor, offset: Tensor, power: Tensor, saturation: Tensor) -> Tensor:
    """Slope, offset and power per channel, then saturation about Rec. 709 luma."""
    c, _, _ = _powered(frame * _px(slope) + _px(offset), _px(power))
    luma = _luma(c)
    return luma + saturation[:, None, None, None] * (c - luma)


@asc_cdl.register_fake
def _(frame, slope, offset, power, saturation):
    return torch.empty_like(frame)


def _cdl_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _cdl_backward(ctx, g):
    frame, slope, offset, power, saturation = ctx.saved_tensors
    c, lit, safe = _powered(frame * _px(slope) + _px(offset), _px(power))
    sat = saturation[:, None, None, None]
    d_sat = (g * (c - _luma(c))).sum((1, 2, 3))
    d_c = sat * g + (1 - sat) * _luma(g)
    d_c = torch.where(lit, d_c, torch.zeros_like(d_c))
    d_base = d_c * _px(power) * c / safe
    d_power = d_c * c * safe.log()
    return (
        d_base * _px(slope),
        (d_base * frame).sum((2, 3)),
        d_base.sum((2, 3)),
        d_power.sum((2, 3)),
        d_sat,
    )


asc_cdl.register_autograd(_cdl_backward, setup_context=_cdl_setup)


# -- lift / gamma / gain -----------------------------------------------------------------------

@custom_op("grading::lift_gamma_gain", mutates_args=())
def lift_gamma_gain(frame: Tensor, lift: Tensor, gamma: Tensor, gain: Tensor) -> Tensor:
    """Video style controls; `lift`, `gamma` and `gain` are (N, 3) or (3,), the last two positive."""
    base = _px(gain) * (frame + _px(lift) * (1 - frame))
    return _powered(base, 1 / _px(gamma))[0]


def _lgg_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output)


def _lgg_backward(ctx, g):
    frame, lift, gamma, gain, y = ctx.saved_tensors
    inner = frame + _px(lift) * (1 - frame)
    base = _px(gain) * inner
    lit = base > 0
    safe = torch.where(lit, base, torch.ones_like(base))
    gy = torch.where(lit, g * y, torch.zeros_like(g)) / _px(gamma)
    d_base = gy / safe
    d_inner = d_base * _px(gain)
    d_lift = (d_inner * (1 - frame)).sum((2, 3)).sum_to_size(lift.shape)
    d_gamma = -(gy * safe.log() / _px(gamma)).sum((2, 3)).sum_to_size(gamma.shape)
    d_gain = (gy.sum((2, 3)) / gain).sum_to_size(gain.shape)
    return d_inner * (1 - _px(lift)), d_lift, d_gamma, d_gain


lift_gamma_gain.register_autograd(_lgg_backward, setup_context=_lgg_setup)


# -- green screen ------------------------------------------------------------------------------

@custom_op("grading::despill", mutates_args=())
def despill(frame: Tensor, amount: Tensor, tint: Tensor, limit: str = "average") -> Tensor:
    """Take green spill out and give it back as a tint.

    amount is (N,), from 0 (off) to 1 (full); tint is (3,), the colour that replaces a unit of spill.
    limit says what green may not exceed: "average" of red and blue, the larger of them ("max"),
    or "red".
    """
    spill = _spill(frame, limit) * amount[:, None, None]
    out = frame + tint[:, None, None] * spill[:, None]
    out[:, 1] -= spill
    return out


def _spill(frame: Tensor, limit: str) -> Tensor:
    r, g, b = frame.unbind(1)
    bound = {"average": 0.5 * (r + b), "max": torch.maximum(r, b), "red": r}[limit]
    return (g - bound).clamp(min=0)


def _despill_setup(ctx, inputs, output):
    frame, amount, tint, ctx.limit = inputs
    ctx.save_for_backward(frame, amount, tint)


def _despill_backward(ctx, g):
    frame, amount, tint = ctx.saved_tensors
    spill = _spill(frame, ctx.limit)
    to_spill = torch.einsum("nchw,c->nhw", g, tint) - g[:, 1]
    d_amount = (to_spill * spill).sum((1, 2))
    d_tint = torch.einsum("nchw,nhw->c", g, spill)
    push = torch.where(spill > 0, to_spill * amount[:, None, None], torch.zeros_like(spill))
    d_frame = g.clone()
    d_frame[:, 1] += push
    if ctx.limit == "average":
        d_frame[:, 0] -= 0.5 * push
        d_frame[:, 2] -= 0.5 * push
    elif ctx.limit == "max":
        red = frame[:, 0] >= frame[:, 2]
        d_frame[:, 0] -= torch.where(red, push, torch.zeros_like(push))
        d_frame[:, 2] -= torch.where(red, torch.zeros_like(push), push)
    else:
        d_frame[:, 0] -= push
    return d_frame, d_amount, d_tint, None


despill.register_autograd(_despill_backward, setup_context=_despill_setup)


def neutral_look(frames: Tensor) -> Look:
    one = frames.new_ones(frames.shape[0], 3)
    return Look(one, torch.zeros_like(one), one.clone(), one[:, 0].clone())


def match_look(frames: Tensor, reference: Tensor, steps: int = 300, lr: float = 5e-3) -> Look:
    look = Look(*(c.clone().requires_grad_(True) for c in neutral_look(frames)))
    opt = torch.optim.Adam(list(look), lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        (asc_cdl(frames, *look) - reference).square().mean().backward()
        opt.step()
    return Look(*(c.detach() for c in look))
