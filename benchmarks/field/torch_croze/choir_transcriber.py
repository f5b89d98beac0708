# Choir-to-score transcription: the recurrent reader, the voice heads, the note
# embedding for the language model side, and the frame loss.
#
# Notes are MIDI numbers. -1 stands for silence everywhere.
import math

import torch
import torch.nn as nn
from torch.autograd import Function

PITCH_CLASSES = 12
SILENCE = -1


class MinimalGatedScan(Function):
    """A recurrent layer with one gate (the "minimal gated unit").

        f_t = sigmoid(x_t Wf + h Uf + bf)
        c_t = tanh(x_t Wc + (f_t * h) Uc + bc)
        h_t = (1 - f_t) * h + f_t * c_t

    Parameters
    ----------
    x : (batch, time, in)
    h0 : (batch, hidden), the state before the first frame that is read
    wf, uf, bf, wc, uc, bc : (in, hidden), (hidden, hidden), (hidden,), twice
    backwards : bool
        read the frames from the last to the first

    Returns
    -------
    (batch, time, hidden), the state at each frame, in the order of the frames.
    """

    @staticmethod
    def forward(ctx, x, h0, wf, uf, bf, wc, uc, bc, backwards=False):
        steps = x.shape[1]
        order = list(range(steps))
        if backwards:
            order.reverse()
        states, gates, cands = [None] * steps, [None] * steps, [None] * steps
        h = h0
        for t in order:
            f = torch.sigmoid(x[:, t] @ wf + h @ uf + bf)
            c = torch.tanh(x[:, t] @ wc + (f * h) @ uc + bc)
            h = (1 - f) * h + f * c
            states[t], gates[t], cands[t] = h, f, c
        out = torch.stack(states, dim=1)
        ctx.order = order
        ctx.save_for_backward(x, h0, wf, uf, wc, uc, out,
                              torch.stack(gates, dim=1), torch.stack(cands, dim=1))
        return out

    @staticmethod
    def backward(ctx, grad):
        x, h0, wf, uf, wc, uc, states, gates, cands = ctx.saved_tensors
        gx = torch.zeros_like(x)
        gwf, guf = torch.zeros_like(wf), torch.zeros_like(uf)
        gwc, guc = torch.zeros_like(wc), torch.zeros_like(uc)
        gbf, gbc = x.new_zeros(wf.shape[1]), x.new_zeros(wc.shape[1])
        carry = torch.zeros_like(h0)
        for t in reversed(ctx.order):
            prev = states[:, t - 1] if t > 0 else h0
            f, c = gates[:, t], cands[:, t]
            gh = grad[:, t] + carry
            pre_c = gh * f * (1 - c * c)
            through = pre_c @ uc.t()
            pre_f = (gh * (c - prev) + through * prev) * f * (1 - f)
            carry = gh * (1 - f) + through * f + pre_f @ uf.t()
            gx[:, t] = pre_c @ wc.t() + pre_f @ wf.t()
            gwf += x[:, t].t() @ pre_f
            guf += prev.t() @ pre_f
            gbf += pre_f.sum(0)
            gwc += x[:, t].t() @ pre_c
            guc += (f * prev).t() @ pre_c
            gbc += pre_c.sum(0)
        return gx, carry, gwf, guf, gbf, gwc, guc, gbc, None


class VoiceBleedLinear(Function):
    """One linear map per voice, plus what the microphones pick up of the others.

    x (..., voices, in), weight (voices, in, out), bias (voices, out) or None,
    bleed a scalar tensor.  With z_v = x_v W_v + b_v the output is
    z_v + bleed * mean over the voices of z.
    """

    @staticmethod
    def forward(x, weight, bias, bleed):
        z = torch.einsum("...vi,vio->...vo", x, weight)
        if bias is not None:
            z = z + bias
        return z + bleed * z.mean(dim=-2, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, bleed = inputs
        ctx.has_bias = bias is not None
        ctx.save_for_backward(x, weight, bleed, *([bias] if ctx.has_bias else []))

    @staticmethod
    def backward(ctx, g):
        x, weight, bleed, *rest = ctx.saved_tensors
        gm = g.mean(dim=-2, keepdim=True)
        gz = g + bleed * gm
        gx = torch.einsum("...vo,vio->...vi", gz, weight)
        flat_x = x.reshape(-1, *x.shape[-2:])
        flat_g = gz.reshape(-1, *gz.shape[-2:])
        gw = torch.einsum("nvi,nvo->vio", flat_x, flat_g)
        gb = flat_g.sum(0) if ctx.has_bias else None
        gbleed = None
        if ctx.needs_input_grad[3]:
            z = torch.einsum("...vi,vio->...vo", x, weight)
            if rest:
                z = z + rest[0]
            # the mean is symmetric, so it may act on the cotangent instead
            gbleed = (gm * z).sum()
        return gx, gw, gb, gbleed


class SungNoteEmbedding(Function):
    """Pitch-class row plus register row, times the loudness of the note.

    ``notes`` holds integers of any shape, ``loudness`` floats of the same shape.
    Silent slots give a zero vector. Notes above the last register share it.
    """

    @staticmethod
    def forward(ctx, notes, loudness, class_table, register_table):
        sounding = notes != SILENCE
        safe = torch.where(sounding, notes, torch.zeros_like(notes))
        cls = safe % PITCH_CLASSES
        reg = (safe // PITCH_CLASSES).clamp(max=register_table.shape[0] - 1)
        rows = (class_table[cls] + register_table[reg]) * sounding[..., None]
        ctx.save_for_backward(loudness, rows, cls, reg, sounding)
        ctx.sizes = class_table.shape, register_table.shape
        return loudness[..., None] * rows

    @staticmethod
    def backward(ctx, grad):
        loudness, rows, cls, reg, sounding = ctx.saved_tensors
        width = grad.shape[-1]
        share = (grad * (loudness * sounding)[..., None]).reshape(-1, width)
        g_class = grad.new_zeros(ctx.sizes[0]).index_add_(0, cls.reshape(-1), share)
        g_reg = grad.new_zeros(ctx.sizes[1]).index_add_(0, reg.reshape(-1), share)
        return None, (grad * rows).sum(-1), g_class, g_reg


def _valid(lengths, steps):
    return torch.arange(steps, device=lengths.device)[None, :] < lengths[:, None]


class PolyphonyBCE(Function):
    """Binary cross entropy of the piano roll, padding left out.

    logits and roll: (songs, frames, notes); lengths: (songs,) valid frames, at
    least one each; note_weight: (notes,) weight of a sounding note, constant.

    reduction
        "sum"    over songs, frames and notes
        "frame"  sum over notes, mean over all valid frames of the batch
        "song"   sum over notes, mean over the frames of each song, then over songs
    """

    @staticmethod
    def forward(ctx, logits, roll, lengths, note_weight=None, reduction="song"):
        valid = _valid(lengths, logits.shape[1]).to(logits.dtype)
        w = torch.ones_like(logits[0, 0]) if note_weight is None else note_weight
        nll = -(w * roll * nn.functional.logsigmoid(logits)
                + (1 - roll) * nn.functional.logsigmoid(-logits))
        frames = nll.sum(-1) * valid
        ctx.save_for_backward(logits, roll, valid, w)
        ctx.reduction = reduction
        if reduction == "sum":
            return frames.sum()
        if reduction == "frame":
            return frames.sum() / valid.sum()
        if reduction == "song":
            return (frames.sum(1) / valid.sum(1)).mean()
        raise ValueError(f"unknown reduction {reduction!r}")

    @staticmethod
    def backward(ctx, grad):
        logits, roll, valid, w = ctx.saved_tensors
        p = torch.sigmoid(logits)
        g = (p * (1 - roll) - w * roll * (1 - p)) * valid[..., None]
        if ctx.reduction != "sum":
            g = g / valid.sum()
        return grad * g, None, None, None, None


class ChoirReader(nn.Module):
    """Two scans, one each way, then a head per voice (SATB)."""

    def __init__(self, bins=48, hidden=32, notes=40, voices=4):
        super().__init__()
        self.hidden, self.voices = hidden, voices

        def cell():
            return nn.ParameterList(
                [nn.Parameter(torch.randn(*s) / math.sqrt(s[0])) for s in
                 ((bins, hidden), (hidden, hidden), (hidden,), (bins, hidden), (hidden, hidden), (hidden,))])

        self.ahead, self.back = cell(), cell()
        self.heads = nn.Parameter(torch.randn(voices, 2 * hidden, notes) / math.sqrt(2 * hidden))
        self.bleed = nn.Parameter(torch.tensor(0.1))

    def forward(self, spectrum):
        h0 = spectrum.new_zeros(spectrum.shape[0], self.hidden)
        a = MinimalGatedScan.apply(spectrum, h0, *self.ahead, False)
        b = MinimalGatedScan.apply(spectrum, h0, *self.back, True)
        both = torch.cat([a, b], -1).unsqueeze(2).expand(-1, -1, self.voices, -1)
        return VoiceBleedLinear.apply(both, self.heads, None, self.bleed)
