"""Linear optics of an electron or proton storage ring, written so that a matching code may descend on it."""

import math
from typing import Sequence

import torch
from torch import Tensor


def _fit(grad: Tensor, like: Tensor) -> Tensor:
    return grad.sum_to_size(like.shape)


def _thick(k: Tensor, length: Tensor):
    """cos-like and sin-like functions of a thick element of strength k (1/m2); k < 0 defocuses, 0 is a drift."""
    x = k * length * length
    small = x.abs() < 1e-2
    safe = torch.where(small, torch.ones_like(x), x)
    root = safe.abs().sqrt()
    arg = torch.where(safe > 0, root, torch.zeros_like(root))
    harg = torch.where(safe < 0, root, torch.zeros_like(root))
    c = torch.where(safe > 0, torch.cos(arg), torch.cosh(harg))
    s = torch.where(safe > 0, torch.sin(arg), torch.sinh(harg)) / root
    c0 = 1 + x * (-1 / 2 + x * (1 / 24 + x * (-1 / 720 + x * (1 / 40320 - x / 3628800))))
    s0 = 1 + x * (-1 / 6 + x * (1 / 120 + x * (-1 / 5040 + x / 362880)))
    ds0 = -1 / 6 + x * (2 / 120 + x * (-3 / 5040 + x * (4 / 362880 - x * 5 / 39916800)))
    ds = (c - s) / (2 * safe)
    return torch.where(small, c0, c), length * torch.where(small, s0, s), length ** 3 * torch.where(small, ds0, ds)


class TwissTransport(torch.autograd.Function):
    """Beta and alpha after every element of a beam line.

    beta0, alpha0  starting values, any common shape (a family of matched beams)
    strength       one entry per magnet circuit; several magnets hang on the same circuit
    length         one entry per element
    circuit        for each element the number of its circuit, -1 for a drift
    plane          "x", or "y" where the quadrupoles act with the opposite sign
    """

    @staticmethod
    def forward(ctx, beta0: Tensor, alpha0: Tensor, strength: Tensor, length: Tensor,
                circuit: Sequence[int], plane: str = "x"):
        sign = {"x": 1.0, "y": -1.0}[plane]
        beta, alpha, betas, alphas, mats = beta0, alpha0, [], [], []
        for n, j in enumerate(circuit):
            k = sign * strength[j] if j >= 0 else torch.zeros_like(length[n])
            c, s, ds = _thick(k, length[n])
            gamma = (1 + alpha * alpha) / beta
            new_beta = c * c * beta - 2 * c * s * alpha + s * s * gamma
            new_alpha = c * k * s * beta + (c * c - k * s * s) * alpha - c * s * gamma
            beta, alpha = new_beta, new_alpha
            betas.append(beta)
            alphas.append(alpha)
            mats.append(torch.stack([k, c, s, ds]))
        betas, alphas = torch.stack(betas), torch.stack(alphas)
        ctx.save_for_backward(beta0, alpha0, strength, length, torch.stack(mats), betas, alphas)
        ctx.circuit, ctx.sign = tuple(circuit), sign
        return betas, alphas

    @staticmethod
    def backward(ctx, g_betas, g_alphas):
        beta0, alpha0, strength, length, mats, betas, alphas = ctx.saved_tensors
        gb, ga = torch.zeros_like(beta0), torch.zeros_like(alpha0)
        g_strength, g_length = torch.zeros_like(strength), torch.zeros_like(length)
        for n in range(len(ctx.circuit) - 1, -1, -1):
            gb, ga = gb + g_betas[n], ga + g_alphas[n]
            b, a = (betas[n - 1], alphas[n - 1]) if n else (beta0, alpha0)
            gam = (1 + a * a) / b
            k, c, s, ds = mats[n]
            # by the entries of the map
            g_c = (gb * (2 * c * b - 2 * s * a) + ga * (k * s * b + 2 * c * a - s * gam)).sum()
            g_s = (gb * (-2 * c * a + 2 * s * gam) + ga * (c * k * b - 2 * k * s * a - c * gam)).sum()
            g_k = (ga * (c * s * b - s * s * a)).sum()
            ell = length[n]
            g_length[n] = -k * s * g_c + c * g_s
            j = ctx.circuit[n]
            if j >= 0:
                g_strength[j] += ctx.sign * (g_k - 0.5 * ell * s * g_c + ds * g_s)
            g_gam = gb * s * s - ga * c * s
            gb, ga = (gb * c * c + ga * c * k * s - g_gam * gam / b,
                      -2 * gb * c * s + ga * (c * c - k * s * s) + g_gam * 2 * a / b)
        return gb, ga, g_strength, g_length, None, None


class OrbitResponse(torch.autograd.Function):
    """Closed-orbit displacement at M monitors for sets of kicks (sets, C) of C correctors.

    With fixed_path=True the radio frequency holds the length of the orbit and each kick also shifts the momentum,
    which adds -D_m D_c / slip_length to the response.  Without it the dispersions are not used.
    beta, phase (radians) and dispersion are given at the monitors and at the correctors; tune is a 0-d tensor.
    """

    @staticmethod
    def forward(ctx, kicks, beta_m, phase_m, disp_m, beta_c, phase_c, disp_c, tune,
                fixed_path=False, slip_length=1.0):
        advance = phase_m[:, None] - phase_c[None, :]
        angle = math.pi * tune - advance.abs()
        amp = (beta_m[:, None] * beta_c[None, :]).sqrt() / (2 * torch.sin(math.pi * tune))
        ring = amp * torch.cos(angle)
        orbit = kicks @ ring.t()
        if fixed_path:
            orbit = orbit - (kicks @ disp_c)[:, None] * disp_m / slip_length
        ctx.save_for_backward(kicks, beta_m, disp_m, beta_c, disp_c, tune, advance, angle, amp, ring)
        ctx.fixed_path, ctx.slip_length = fixed_path, slip_length
        return orbit

    @staticmethod
    def backward(ctx, g):
        kicks, beta_m, disp_m, beta_c, disp_c, tune, advance, angle, amp, ring = ctx.saved_tensors
        g_ring = g.t() @ kicks
        g_kicks = g @ ring
        half = 0.5 * g_ring * ring
        g_angle = -g_ring * amp * torch.sin(angle)
        g_adv = -g_angle * advance.sign()
        turn = math.pi * tune
        g_tune = math.pi * (g_angle.sum() - (g_ring * ring).sum() * torch.cos(turn) / torch.sin(turn))
        g_dm, g_dc = torch.zeros_like(disp_m), torch.zeros_like(disp_c)
        if ctx.fixed_path:
            g_dm = -g_ring @ disp_c / ctx.slip_length
            g_dc = -disp_m @ g_ring / ctx.slip_length
        return (g_kicks, half.sum(1) / beta_m, g_adv.sum(1), g_dm,
                half.sum(0) / beta_c, -g_adv.sum(0), g_dc, g_tune, None, None)


class BucketHeight(torch.autograd.Function):
    """Relative momentum height of the RF bucket and the synchrotron tune.

    voltage (MV), phase (rad, 0 < phase < pi/2, counted from the stable zero crossing on whichever side of transition the
    machine runs), energy (MeV) and compaction broadcast together.  Proton boosters run below transition, where the
    slip factor compaction - 1/gamma**2 is negative; electron rings above it.
    """

    @staticmethod
    def forward(ctx, voltage, phase, energy, compaction, harmonic: int, rest_energy: float):
        inv_gamma2 = (rest_energy / energy).square()
        slip = compaction - inv_gamma2
        room = 2 * torch.cos(phase) - (math.pi - 2 * phase) * torch.sin(phase)
        height = (voltage * room / (math.pi * harmonic * slip.abs() * energy)).sqrt()
        qs = (harmonic * voltage * slip.abs() * torch.cos(phase) / (2 * math.pi * energy)).sqrt()
        ctx.save_for_backward(voltage, phase, energy, compaction, inv_gamma2, slip, room, height, qs)
        return height, qs

    @staticmethod
    def backward(ctx, g_height, g_qs):
        voltage, phase, energy, compaction, inv_gamma2, slip, room, height, qs = ctx.saved_tensors
        # work with half the logarithmic weight of each output
        wh, wq = 0.5 * g_height * height, 0.5 * g_qs * qs
        g_v = (wh + wq) / voltage
        g_phase = -wh * (math.pi - 2 * phase) * torch.cos(phase) / room - wq * torch.tan(phase)
        g_slip = (wq - wh) / slip.abs()
        g_energy = -(wh + wq) / energy + g_slip * 2 * inv_gamma2 / energy
        return (_fit(g_v, voltage), _fit(g_phase, phase), _fit(g_energy, energy),
                _fit(g_slip, compaction), None, None)
