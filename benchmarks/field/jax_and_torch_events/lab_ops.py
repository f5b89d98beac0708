"""Operators shared by the audio and the variational-circuit notebooks."""
from __future__ import annotations

import math
from typing import Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


# ---------------------------------------------------------------- lapped synthesis (codec decoder)
def _positions(n_frames: int, width: int, hop: int, device) -> Tensor:
    start = torch.arange(n_frames, device=device) * hop
    return start[:, None] + torch.arange(width, device=device)


class LappedSynthesis(torch.autograd.Function):
    """Windowed overlap-add with a trainable window.

    ``frames`` (batch, n_frames, width) and ``window`` (width,), positive, give a signal of
    ``(n_frames - 1) * hop + width`` samples.  With ``normalise`` the signal is divided by the summed
    squared windows, plus a small floor.
    """

    FLOOR = 1e-8

    @staticmethod
    def forward(ctx, frames: Tensor, window: Tensor, hop: int, normalise: bool = True):
        batch, n_frames, width = frames.shape
        pos = _positions(n_frames, width, hop, frames.device)
        length = (n_frames - 1) * hop + width
        signal = frames.new_zeros(batch, length)
        signal.index_add_(1, pos.reshape(-1), (frames * window).reshape(batch, -1))
        norm = None
        if normalise:
            norm = window.new_full((length,), LappedSynthesis.FLOOR)
            norm.index_add_(0, pos.reshape(-1), (window ** 2).repeat(n_frames))
            signal = signal / norm
        ctx.save_for_backward(frames, window, signal, norm)
        ctx.hop = hop
        return signal

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        frames, window, signal, norm = ctx.saved_tensors
        pos = _positions(frames.shape[1], frames.shape[2], ctx.hop, frames.device)
        if norm is not None:
            grad = grad / norm
        lifted = grad[:, pos]
        g_window = (lifted * frames).sum((0, 1))
        if norm is not None:
            g_norm = -(grad * signal).sum(0)
            g_window = g_window + 2.0 * window * g_norm[pos].sum(0)
        return lifted * window, g_window, None, None


class CodecHead(nn.Module):
    def __init__(self, channels: int, width: int = 32, hop: int = 16, normalise: bool = True):
        super().__init__()
        self.to_frame = nn.Linear(channels, width)
        phase = (torch.arange(width) + 0.5) * math.pi / width
        self.log_window = nn.Parameter(torch.sin(phase).log())
        self.hop, self.normalise = hop, normalise

    def forward(self, latents: Tensor) -> Tensor:
        """(batch, n_frames, channels) -> (batch, samples)"""
        return LappedSynthesis.apply(
            self.to_frame(latents), self.log_window.exp(), self.hop, self.normalise)


# ---------------------------------------------------------------- monotonic alignment (TTS aligner)
def _forward_lattice(logp: Tensor) -> Tensor:
    """Log-sums of monotonic paths that reach each cell of one (frames, tokens) score matrix."""
    rows = [torch.full_like(logp[0], -math.inf)]
    rows[0][0] = logp[0, 0]
    pad = logp.new_full((1,), -math.inf)
    for t in range(1, logp.shape[0]):
        stay = rows[-1]
        advance = torch.cat([pad, stay[:-1]])
        rows.append(torch.logaddexp(stay, advance) + logp[t])
    return torch.stack(rows)


class ForwardSum(torch.autograd.Function):
    """Negative log-sum over all monotonic alignments, per frame of each utterance.

    Args:
        logp: (batch, frames, tokens) log-scores, padded at the end along both axes.
        frame_lens: (batch,) long, number of frames of each utterance.
        token_lens: (batch,) long, number of tokens, at most the number of frames.
    Returns:
        (batch,) losses.  A path starts at (0, 0), ends at the last frame and token of the utterance,
        and at each frame stays on its token or advances by one.
    """

    @staticmethod
    def forward(ctx, logp, frame_lens, token_lens):
        posterior = torch.zeros_like(logp)
        totals = []
        for b, (t, s) in enumerate(zip(frame_lens.tolist(), token_lens.tolist())):
            cell = logp[b, :t, :s]
            alpha = _forward_lattice(cell)
            beta = _forward_lattice(cell.flip(0, 1)).flip(0, 1)
            totals.append(alpha[-1, -1])
            posterior[b, :t, :s] = torch.exp(alpha + beta - cell - alpha[-1, -1])
        ctx.save_for_backward(posterior)
        return -torch.stack(totals) / frame_lens.to(logp.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (posterior,) = ctx.saved_tensors
        per_frame = grad / posterior.shape[1]
        return -posterior * per_frame[:, None, None], None, None


class AlignerLoss(nn.Module):
    """Distance-based attention followed by the forward-sum objective."""

    def __init__(self, sharpness: float = 0.05):
        super().__init__()
        self.sharpness = sharpness

    def forward(self, mels: Tensor, texts: Tensor, mel_lens: Tensor, text_lens: Tensor) -> Tensor:
        score = -self.sharpness * (mels[:, :, None] - texts[:, None]).square().sum(-1)
        hidden = torch.arange(texts.shape[1], device=texts.device) >= text_lens[:, None]
        logp = score.masked_fill(hidden[:, None], -1e4).log_softmax(-1)
        return ForwardSum.apply(logp, mel_lens, text_lens).mean()


# ---------------------------------------------------------------- variational circuits
Gate = Tuple[str, Tuple[int, ...]]
ROTATIONS = ("rx", "ry", "rz", "rzz", "crx", "cry")
HARDWARE_EFFICIENT: Tuple[Gate, ...] = (
    ("ry", (0,)), ("ry", (1,)), ("cx", (0, 1)), ("rz", (0,)), ("ry", (1,)),
)


def ring_ansatz(n_wires: int, layers: int = 1, entangler: str = "cx") -> Tuple[Gate, ...]:
    """Layers of ry on every wire followed by a ring of entanglers, closed by a last ry layer."""
    if n_wires < 2:
        raise ValueError("a ring needs at least two wires")
    wall = [("ry", (q,)) for q in range(n_wires)]
    ring = [(entangler, (q, (q + 1) % n_wires)) for q in range(n_wires)]
    return tuple((wall + ring) * layers + wall)


def _local(name: str, theta: Tensor) -> Tensor:
    """Batched 2x2 rotation matrices (batch, 2, 2)."""
    c, s = torch.cos(theta / 2), torch.sin(theta / 2)
    zero = torch.zeros_like(c)
    if name == "rx":
        real, imag = [c, zero, zero, c], [zero, -s, -s, zero]
    elif name == "ry":
        real, imag = [c, -s, s, c], [zero] * 4
    else:
        real, imag = [c, zero, zero, c], [-s, zero, zero, s]
    return torch.complex(torch.stack(real, -1), torch.stack(imag, -1)).view(-1, 2, 2)


def _apply_local(state: Tensor, mats: Tensor, wire: int) -> Tensor:
    moved = state.movedim(wire + 1, 1)
    out = torch.einsum("bij,bj...->bi...", mats, moved)
    return out.movedim(1, wire + 1)


def _apply_gate(state: Tensor, name: str, wires: Sequence[int], theta=None) -> Tensor:
    if name in ("rx", "ry", "rz"):
        return _apply_local(state, _local(name, theta), wires[0])
    if name == "rzz":
        z = torch.tensor([1.0, -1.0], dtype=theta.dtype, device=theta.device)
        shape = [1] * state.dim()
        first, second = list(shape), list(shape)
        first[wires[0] + 1] = second[wires[1] + 1] = 2
        parity = z.view(first) * z.view(second)
        angle = theta.view([-1] + shape[1:]) * parity / 2
        return state * torch.polar(torch.ones_like(angle), -angle)
    if name == "cx":
        flip = torch.tensor([[0, 1], [1, 0]], dtype=state.dtype).expand(state.shape[0], 2, 2)
        turned = _apply_local(state, flip, wires[1])
    elif name in ("crx", "cry"):
        turned = _apply_local(state, _local(name[1:], theta), wires[1])
    else:
        raise ValueError(f"unknown gate {name!r}")
    shape = [1] * state.dim()
    shape[wires[0] + 1] = 2
    on = torch.tensor([False, True]).view(shape)
    return torch.where(on, turned, state)


def measure_z(angles: Tensor, gates: Sequence[Gate], n_wires: int) -> Tensor:
    """<Z> of every wire (batch, n_wires) after running the circuit from |0...0>."""
    kind = torch.complex(angles.new_zeros(()), angles.new_zeros(())).dtype
    state = torch.zeros((angles.shape[0],) + (2,) * n_wires, dtype=kind)
    state[(slice(None),) + (0,) * n_wires] = 1.0
    used = 0
    for name, wires in gates:
        theta = None
        if name in ROTATIONS:
            theta, used = angles[:, used], used + 1
        state = _apply_gate(state, name, wires, theta)
    prob = state.abs() ** 2
    out = []
    for wire in range(n_wires):
        p = prob.movedim(wire + 1, 1).flatten(2).sum(-1)
        out.append(p[:, 0] - p[:, 1])
    return torch.stack(out, -1)


class ShiftExpectation(torch.autograd.Function):
    """Energy sum_q fields[q] <Z_q> of a circuit, differentiated by shifting angles as on hardware.

    ``angles`` (batch, n_angles) are consumed in the order of the rotations in ``gates``; ``fields``
    (n_wires,).  Gates are ``(name, wires)`` with names rx, ry, rz, rzz, crx, cry (one angle each,
    control first) and cx (no angle).
    """

    @staticmethod
    def forward(ctx, angles, fields, gates=HARDWARE_EFFICIENT):
        z = measure_z(angles, gates, fields.shape[0])
        ctx.save_for_backward(angles, fields, z)
        ctx.gates = gates
        return z @ fields

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        angles, fields, z = ctx.saved_tensors
        columns = []
        for k in range(angles.shape[1]):
            step = torch.zeros_like(angles)
            step[:, k] = math.pi / 2
            up = measure_z(angles + step, ctx.gates, fields.shape[0]) @ fields
            down = measure_z(angles - step, ctx.gates, fields.shape[0]) @ fields
            columns.append(0.5 * (up - down))
        return grad[:, None] * torch.stack(columns, -1), grad @ z, None


class CircuitLayer(nn.Module):
    def __init__(self, n_wires: int, gates: Sequence[Gate] = HARDWARE_EFFICIENT):
        super().__init__()
        self.gates = tuple(gates)
        n_angles = sum(name in ROTATIONS for name, _ in self.gates)
        self.offset = nn.Parameter(0.1 * torch.randn(n_angles))
        self.fields = nn.Parameter(torch.ones(n_wires))

    def forward(self, encoded: Tensor) -> Tensor:
        """``encoded`` (batch, n_angles) is added to the trained angles."""
        return ShiftExpectation.apply(encoded + self.offset, self.fields, self.gates)
