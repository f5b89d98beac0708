# Fitting of hearing aids: interaural cues that the device must keep, a learned gain model with sparse
# weights, and the listeners' A/B choices that train it.
import math

import torch
from torch.autograd import Function
from torch.special import log_ndtr

DB = 10.0 / math.log(10.0)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class InterauralCoherence(Function):
    """
    Coherence and level difference of the two ears.

    Parameters
    ----------
    left, right : complex tensor, (..., bins, frames)
        Short-time spectra.
    speech : bool tensor, (..., frames)
        Frames with voice activity; the averages run over these alone.
    floor : float
        Added to the powers.

    Returns
    -------
    coherence : real tensor (..., bins), between 0 and 1
    level : real tensor (..., bins), left over right in dB
    """

    @staticmethod
    def forward(ctx, left, right, speech, floor=1e-8):
        w = speech.to(left.real.dtype)
        w = (w / w.sum(-1, keepdim=True).clamp(min=1)).unsqueeze(-2)
        cross = (w * left * right.conj()).sum(-1)
        p_left = (w * left.abs().square()).sum(-1) + floor
        p_right = (w * right.abs().square()).sum(-1) + floor
        coherence = cross.abs() / (p_left * p_right).sqrt()
        level = DB * (p_left.log() - p_right.log())
        ctx.save_for_backward(left, right, w, cross, p_left, p_right, coherence)
        return coherence, level

    @staticmethod
    def backward(ctx, g_coh, g_level):
        left, right, w, cross, p_left, p_right, coherence = ctx.saved_tensors
        toward = torch.sgn(cross) * (g_coh / (p_left * p_right).sqrt())
        toward = toward.unsqueeze(-1)
        d_pl = (DB * g_level - 0.5 * g_coh * coherence) / p_left
        d_pr = (-DB * g_level - 0.5 * g_coh * coherence) / p_right
        g_left = w * (toward * right + 2 * d_pl.unsqueeze(-1) * left)
        g_right = w * (toward.conj() * left + 2 * d_pr.unsqueeze(-1) * right)
        return g_left, g_right, None, None


class FirmBandThreshold(Function):
    """Firm threshold of the gain weights (..., bands, features), a compromise of soft and hard thresholding.

    A weight no larger than its band's threshold becomes zero; one larger than ``stiffness * threshold`` is kept as
    it is; between the two it rises linearly from zero to the full weight.  threshold (bands,) is positive and learned,
    stiffness > 1 is a 0-d tensor.  Leading axes (fitting formulas, listeners) share the thresholds.
    """

    @staticmethod
    def forward(ctx, weight, threshold, stiffness):
        size = weight.abs()
        low = threshold[:, None]
        ramp = weight.sign() * (size - low) * stiffness / (stiffness - 1)
        ctx.save_for_backward(weight, threshold, stiffness)
        out = torch.where(size > stiffness * low, weight, ramp)
        return torch.where(size > low, out, torch.zeros_like(weight))

    @staticmethod
    def backward(ctx, g):
        weight, threshold, stiffness = ctx.saved_tensors
        size, low = weight.abs(), threshold[:, None]
        kept = size > stiffness
        on_ramp = (size > low) & ~kept
        g_ramp = torch.where(on_ramp, g, torch.zeros_like(g))
        slope = stiffness / (stiffness - 1)
        g_weight = torch.where(kept, g, g_ramp * slope)
        signed = g_ramp * weight.sign()
        g_threshold = -slope * signed.sum(-1).sum_to_size(threshold.shape)
        g_stiffness = -(signed * (size - low)).sum() / (stiffness - 1) ** 2
        return g_weight, g_threshold, g_stiffness


class ListenerPreferenceNLL(Function):
    """Thurstone likelihood of paired comparisons between device settings.

    P(listener l prefers a over b) = Phi((quality[a] - quality[b] + bias[l]) / noise)

    where bias is the listener's leaning to whatever is presented first.  Every row of the table of trials
    carries an integer `repeats`, the number of times that this row was observed; the loss is the mean over
    observations.  Control trials compare a setting with itself.
    """

    @staticmethod
    def forward(ctx, quality, bias, noise, first, second, listener, chose_first, repeats):
        sign = torch.where(chose_first, 1.0, -1.0).to(quality.dtype)
        weight = repeats.to(quality.dtype)
        weight = weight / weight.sum().clamp(min=1)
        z = sign * (quality[first] - quality[second] + bias[listener]) / noise
        ctx.save_for_backward(z, sign, weight, noise, first, second, listener)
        ctx.sizes = quality.shape[0], bias.shape[0]
        return -(weight * log_ndtr(z)).sum()

    @staticmethod
    def backward(ctx, g):
        z, sign, weight, noise, first, second, listener = ctx.saved_tensors
        mills = torch.exp(-0.5 * z.square() - HALF_LOG_2PI - log_ndtr(z))
        dz = -g * weight * mills
        d_diff = dz * sign / noise
        g_quality = z.new_zeros(ctx.sizes[0]).index_add_(0, first, d_diff).index_add_(0, second, -d_diff)
        g_bias = z.new_zeros(ctx.sizes[1]).index_add_(0, listener, d_diff)
        g_noise = -(dz * z).sum() / noise
        return g_quality, g_bias, g_noise, None, None, None, None, None


class GainModel(torch.nn.Module):
    """Log-gain per band from audiogram features; small weights are driven to exact zero."""

    def __init__(self, features, bands):
        super().__init__()
        self.weight = torch.nn.Parameter(0.3 * torch.randn(bands, features))
        self.raw_threshold = torch.nn.Parameter(torch.full((bands,), -3.0))
        self.raw_stiffness = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, audiogram):
        softplus = torch.nn.functional.softplus
        w = FirmBandThreshold.apply(self.weight, softplus(self.raw_threshold), 1 + softplus(self.raw_stiffness))
        return audiogram @ w.t()
