# whole-body vibration on seats: dose, seat dynamics, bump stops
import argparse
from collections import namedtuple

import numpy as np
import torch
from torch.autograd.function import once_differentiable

# multiplying factors of the standard, by posture: x, y, z
FACTORS = {
    "health": (1.4, 1.4, 1.0),
    "comfort": (1.0, 1.0, 1.0),
    "standing": (1.0, 1.0, 1.0),
}
POWER = {"rms": 2, "rmq": 4, "vdv": 4}

Seat = namedtuple("Seat", "mass damping stiffness")
FOAM = Seat(52.0, 780.0, 5.2e4)
AIR = Seat(58.0, 410.0, 1.1e4)


def posture_factors(posture, dtype=torch.float32):
    return torch.tensor(FACTORS[posture], dtype=dtype)


class VibrationTotal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, accel, factors, valid, metric, dt):
        # accel (..., T, axes), factors (axes,), valid (..., T) bool, out (...)
        p = POWER[metric]
        kept = torch.where(valid.unsqueeze(-1), accel, torch.zeros_like(accel))
        moment = kept.pow(p).sum(-2)
        if metric == "vdv":
            moment = moment * dt
        else:
            moment = moment / valid.sum(-1, keepdim=True)
        out = (factors.pow(p) * moment).sum(-1).pow(1.0 / p)
        ctx.save_for_backward(kept, factors, moment, out)
        ctx.p = p
        ctx.unit = dt if metric == "vdv" else None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        kept, k, moment, out = ctx.saved_tensors
        p = ctx.p
        unit = 1.0 / kept.size(-2) if ctx.unit is None else ctx.unit
        lead = (g * out.pow(1 - p)).unsqueeze(-1)
        da = lead.unsqueeze(-2) * k.pow(p) * kept.pow(p - 1) * unit
        dk = (lead * k.pow(p - 1) * moment).reshape(-1, k.numel()).sum(0)
        return da, dk, None, None, None


class SeatResponse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, spectrum, mass, damping, stiffness, omega):
        # spectrum (runs, seats, F) complex; seat values (seats, 1); omega (F,)
        link = torch.complex(stiffness.expand(-1, omega.numel()), damping * omega)
        den = link - mass * omega ** 2
        h = link / den
        ctx.save_for_backward(spectrum, h, den, omega)
        return spectrum * h

    @staticmethod
    def backward(ctx, g):
        spectrum, h, den, omega = ctx.saved_tensors
        back = g.conj() * spectrum / den
        stretch = back * (1 - h)
        d_mass = (back * h).real * omega ** 2
        d_damp = -stretch.imag * omega
        return g * h.conj(), d_mass, d_damp, stretch.real, None


def _fit(t, like):
    return t.sum_to_size(like.shape)


class BumpStopForce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stroke, rate, stop_up, stop_down, gap_up, gap_down, order=2):
        # stroke (..., corners), the rest (corners,) or ()
        over = (stroke - gap_up).clamp(min=0)
        under = (-stroke - gap_down).clamp(min=0)
        ctx.order = order
        ctx.save_for_backward(stroke, rate, stop_up, stop_down, gap_up, gap_down)
        return rate * stroke + stop_up * over ** order - stop_down * under ** order

    @staticmethod
    def backward(ctx, g):
        stroke, rate, stop_up, stop_down, gap_up, gap_down = ctx.saved_tensors
        n = ctx.order
        over = (stroke - gap_up).clamp(min=0)
        under = (-stroke - gap_down).clamp(min=0)
        push = n * stop_up * over ** (n - 1)
        pull = n * stop_down * under ** (n - 1)
        return (
            g * (rate + push + pull),
            _fit(g * stroke, rate),
            _fit(g * over ** n, stop_up),
            _fit(-g * under ** n, stop_down),
            _fit(-g * push, gap_up),
            _fit(-g * pull, gap_down),
            None,
        )


def stack_seats(*seats, dtype=torch.float64):
    rows = torch.tensor([list(s) for s in seats], dtype=dtype)
    return rows[:, 0:1].clone(), rows[:, 1:2].clone(), rows[:, 2:3].clone()


def seat_rms(floor, fs, seats, valid=None, posture="comfort"):
    """floor (runs, T, 3) at fs; every seat answers in z only."""
    mass, damping, stiffness = stack_seats(*seats, dtype=floor.dtype)
    omega = 2 * np.pi * torch.fft.rfftfreq(floor.shape[1], 1.0 / fs, dtype=floor.dtype)
    spec = torch.fft.rfft(floor[..., 2], dim=1).unsqueeze(1).expand(-1, len(seats), -1)
    z = torch.fft.irfft(SeatResponse.apply(spec, mass, damping, stiffness, omega), n=floor.shape[1], dim=-1)
    xy = floor[:, None, :, :2].expand(-1, len(seats), -1, -1)
    accel = torch.cat([xy, z.unsqueeze(-1)], -1)
    if valid is None:
        valid = torch.ones(floor.shape[:2], dtype=torch.bool)
    return VibrationTotal.apply(accel, posture_factors(posture, floor.dtype), valid[:, None].expand(accel.shape[:3]),
                                "rms", 1.0 / fs)


def tune_stops(stroke, force, order=2, steps=300, lr=1e-2):
    corners = stroke.shape[-1]
    p = [torch.full((corners,), v, dtype=stroke.dtype, requires_grad=True) for v in (18.0, 9.0, 9.0, 0.05, 0.05)]
    opt = torch.optim.Adam(p, lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        (BumpStopForce.apply(stroke, *p, order) - force).pow(2).mean().backward()
        opt.step()
    return [q.detach() for q in p]


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("record", help="npz with accel (runs, T, 3), ok (runs, T), fs")
    ap.add_argument("--metric", choices=sorted(POWER), default="vdv")
    ap.add_argument("--posture", choices=sorted(FACTORS), default="health")
    args = ap.parse_args(argv)
    rec = np.load(args.record)
    out = VibrationTotal.apply(torch.from_numpy(rec["accel"]), posture_factors(args.posture, torch.float64),
                               torch.from_numpy(rec["ok"]), args.metric, 1.0 / float(rec["fs"]))
    for i, v in enumerate(out.tolist()):
        print(f"run {i:3d}  {args.metric} {v:.4f}")


if __name__ == "__main__":
    main()
