# Didgeridoo workshop: bore optimisation and analysis of the drone.
#
# A bore is a row of short cylinders from the mouth end to the bell.  We keep acoustic
# pressure p and w = j * (volume flow), which makes the loss-free transmission
# matrices real.  Impedances are relative to that of the first cylinder.
import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SOUND = 346.0        # m/s, warm damp breath
RHO = 1.17
TWO_PI = 2 * math.pi


def _cylinder(freq, length, z_rel):
    phase = TWO_PI * freq * length / SOUND
    return torch.cos(phase), torch.sin(phase), z_rel


def _toward_mouth(p, w, c, s, z):
    return c * p + z * s * w, c * w - s / z * p


def _toward_bell(p, w, c, s, z):
    return c * p - z * s * w, c * w + s / z * p


class BoreChain(Function):
    """State at the mouth for a unit flow at the open bell.

    lengths, radii: (cylinders,), freq: (F,).  Returns p (F,) and w (F,); the resonances
    that the player can lock to are where w is near zero.  The states inside of
    the bore are not stored: each cylinder can be undone exactly.
    """

    @staticmethod
    def forward(ctx, lengths, radii, freq):
        z = (radii[0] / radii) ** 2
        p, w = torch.zeros_like(freq), torch.ones_like(freq)
        for n in reversed(range(len(lengths))):
            p, w = _toward_mouth(p, w, *_cylinder(freq, lengths[n], z[n]))
        ctx.save_for_backward(lengths, radii, freq, p, w)
        return p, w

    @staticmethod
    @once_differentiable
    def backward(ctx, gp, gw):
        lengths, radii, freq, p, w = ctx.saved_tensors
        z = (radii[0] / radii) ** 2
        g_len, g_z, g_freq = torch.zeros_like(lengths), torch.zeros_like(z), torch.zeros_like(freq)
        for n in range(len(lengths)):
            c, s, zn = _cylinder(freq, lengths[n], z[n])
            p, w = _toward_bell(p, w, c, s, zn)
            g_phase = gp * (zn * c * w - s * p) - gw * (s * w + c / zn * p)
            g_len[n] = (g_phase * freq).sum() * TWO_PI / SOUND
            g_freq += g_phase * lengths[n] * TWO_PI / SOUND
            g_z[n] = (gp * s * w + gw * s / zn**2 * p).sum()
            gp, gw = _toward_bell(gp, gw, c, s, zn)
        g_rad = -2 * g_z * z / radii
        g_rad[0] += (2 * g_z * z).sum() / radii[0]
        return g_len, g_rad, g_freq


class LipFlow(Function):
    """Volume flow through the lips, Bernoulli with a rounded root.

    width: (players,) m, opening: (players, time) m, negative when the lips are pressed
    shut (no flow then), drop: (players, time) Pa, mouth minus bore, of either sign.
    """

    SOFT = 25.0  # Pa

    @staticmethod
    def forward(ctx, width, opening, drop):
        ctx.save_for_backward(width, opening, drop)
        root = drop * (drop**2 + LipFlow.SOFT**2) ** -0.25
        return width[:, None] * opening.clamp_min(0) * root * math.sqrt(2 / RHO)

    @staticmethod
    def backward(ctx, grad):
        width, opening, drop = ctx.saved_tensors
        k = math.sqrt(2 / RHO)
        q = drop**2 + LipFlow.SOFT**2
        speed = k * drop * q**-0.25
        gap = opening.clamp_min(0)
        g_width = (grad * gap * speed).sum(1)
        g_open = torch.where(opening > 0, grad * width[:, None] * speed, torch.zeros_like(grad))
        g_drop = grad * width[:, None] * gap * k * q**-1.25 * (0.5 * drop**2 + LipFlow.SOFT**2)
        return g_width, g_open, g_drop


class DroneHarmonics(Function):
    """Amplitudes (B, H) of the first H harmonics of recorded frames.

    frames: (B, N) samples; pitch: (B,) in cycles per sample.  A Hann window is used.
    With relative=True all amplitudes are divided by that of the fundamental.
    """

    @staticmethod
    def _basis(frames, pitch, harmonics):
        n = torch.arange(frames.shape[1], dtype=frames.dtype)
        h = torch.arange(1, harmonics + 1, dtype=frames.dtype)
        win = torch.hann_window(frames.shape[1], dtype=frames.dtype)
        angle = TWO_PI * pitch[:, None, None] * h[:, None] * n
        return n, h, 2 * win / win.sum(), angle

    @staticmethod
    def forward(ctx, frames, pitch, harmonics=6, relative=False):
        _, _, win, angle = DroneHarmonics._basis(frames, pitch, harmonics)
        x = (frames * win)[:, None, :]
        a, b = (x * angle.cos()).sum(-1), (x * angle.sin()).sum(-1)
        amp = torch.sqrt(a**2 + b**2 + 1e-14)
        ctx.save_for_backward(frames, pitch, a, b, amp)
        ctx.harmonics, ctx.relative = harmonics, relative
        return amp / amp[:, :1] if relative else amp

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        frames, pitch, a, b, amp = ctx.saved_tensors
        n, h, win, angle = DroneHarmonics._basis(frames, pitch, ctx.harmonics)
        g = grad
        if ctx.relative:
            first = amp[:, :1]
            g = grad / first
            loss = (grad[:, 1:] * amp[:, 1:]).sum(1, keepdim=True) / first**2
            g = torch.cat([g[:, :1] - loss, g[:, 1:]], 1)
        ga, gb = (g * a / amp)[..., None], (g * b / amp)[..., None]
        cos, sin = angle.cos(), angle.sin()
        g_frames = (ga * cos + gb * sin).sum(1) * win
        turn = (gb * cos - ga * sin) * (frames * win)[:, None, :]
        g_pitch = TWO_PI * (turn * h[:, None] * n).sum((1, 2))
        return g_frames, g_pitch, None, None


class BoreDesign(torch.nn.Module):
    """A bore whose radii are learned so that the wanted pitches resonate."""

    def __init__(self, pieces=24, length=1.4):
        super().__init__()
        self.log_radii = torch.nn.Parameter(torch.linspace(math.log(0.015), math.log(0.04), pieces))
        self.register_buffer("lengths", torch.full((pieces,), length / pieces))

    def forward(self, wanted_hz):
        p, w = BoreChain.apply(self.lengths, self.log_radii.exp(), wanted_hz)
        return (w**2 / (p**2 + w**2)).mean()


def main():
    bore = BoreDesign()
    opt = torch.optim.Adam(bore.parameters(), lr=1e-2)
    for _ in range(50):
        opt.zero_grad()
        loss = bore(torch.tensor([65.4, 174.6]))
        loss.backward()
        opt.step()
    print("residual", loss.item())


if __name__ == "__main__":
    main()
