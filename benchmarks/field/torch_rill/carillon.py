"""Bell tuning and virtual carillon: partials, tower acoustics, striking."""

import dataclasses
from typing import Literal, Optional, Tuple

import torch
from torch import Tensor

PARTIALS = ("hum", "prime", "tierce", "quint", "nominal")
MINOR_THIRD_RATIOS = (0.5, 1.0, 1.2, 1.5, 2.0)
MAJOR_THIRD_RATIOS = (0.5, 1.0, 1.25, 1.5, 2.0)
CENTS_PER_NEPER = 1200.0 / 0.6931471805599453

Reference = Literal["hum", "prime", "nominal", "mean"]


@dataclasses.dataclass(frozen=True)
class TuningGoal:
    ratios: Tuple[float, ...] = MINOR_THIRD_RATIOS
    reference: Reference = "nominal"
    tolerance_cents: float = 4.0


class PartialCents(torch.autograd.Function):
    """Deviation of measured partials from a tuning goal, in cents.

    Args:
        freqs: (bells, partials) measured frequencies in Hz, in the order of
            ``PARTIALS``.
        goal: ratios to aim at and the reference they are taken from. With
            ``"mean"`` the reference is the arithmetic mean of a bell's
            partials, compared with the mean of the ratios.

    Returns:
        (bells, partials) cents; positive is sharp.
    """

    @staticmethod
    def forward(ctx, freqs: Tensor, goal: TuningGoal) -> Tensor:
        ratios = torch.tensor(goal.ratios, dtype=freqs.dtype, device=freqs.device)
        if goal.reference == "mean":
            base, base_ratio = freqs.mean(1, keepdim=True), ratios.mean()
        else:
            i = PARTIALS.index(goal.reference)
            base, base_ratio = freqs[:, i : i + 1], ratios[i]
        ctx.save_for_backward(freqs)
        ctx.reference = goal.reference
        return CENTS_PER_NEPER * torch.log((freqs / base) / (ratios / base_ratio))

    @staticmethod
    def backward(ctx, grad_cents: Tensor):
        (freqs,) = ctx.saved_tensors
        grad_log = CENTS_PER_NEPER * grad_cents
        total = grad_log.sum(1, keepdim=True)
        if ctx.reference == "mean":
            grad_log = grad_log - total / freqs.shape[1]
        else:
            i = PARTIALS.index(ctx.reference)
            grad_log = grad_log.clone()
            grad_log[:, i] -= total[:, 0]
        return grad_log / freqs, None


class TowerResponse(torch.autograd.Function):
    """Circular convolution with the response of the bell chamber.

    Args:
        dry: (..., n) signals, n of either parity.
        response: (n // 2 + 1,) complex half-spectrum of the chamber.

    Returns:
        (..., n) wet signals.
    """

    @staticmethod
    def forward(ctx, dry: Tensor, response: Tensor) -> Tensor:
        n = dry.shape[-1]
        spectrum = torch.fft.rfft(dry)
        ctx.save_for_backward(spectrum, response)
        ctx.n = n
        return torch.fft.irfft(spectrum * response, n=n)

    @staticmethod
    def backward(ctx, grad_wet: Tensor):
        spectrum, response = ctx.saved_tensors
        n = ctx.n
        g = torch.fft.rfft(grad_wet)
        grad_dry = torch.fft.irfft(g * response.conj(), n=n)
        # every bin but the two real ones stands for a conjugate pair
        weight = torch.full(response.shape, 2.0 / n, dtype=grad_wet.dtype, device=grad_wet.device)
        weight[0] = 1.0 / n
        weight[-1] = 1.0 / n
        grad_response = weight * (g * spectrum.conj())
        grad_response = grad_response.reshape(-1, response.shape[0]).sum(0)
        return grad_dry, grad_response


class ChimeTrack(torch.autograd.Function):
    """Render a list of strikes into one track.

    Strikes may overlap, may repeat a bell, and may ring past the end of the
    track, where they are cut.

    Args:
        waves: (bells, m) recorded strikes at unit velocity.
        velocity: (strikes,) positive clapper velocities.
        hardness: scalar exponent of the velocity.
        bell: (strikes,) integer bell of each strike.
        onset: (strikes,) integer sample at which each strike begins.
        length: samples in the track.
    """

    @staticmethod
    def forward(ctx, waves, velocity, hardness, bell, onset, length):
        gain = velocity**hardness
        place = onset[:, None] + torch.arange(waves.shape[1], device=waves.device)
        place = place.clamp(max=length)
        track = waves.new_zeros(length + 1)
        track.index_put_((place,), gain[:, None] * waves[bell], accumulate=True)
        ctx.save_for_backward(waves, velocity, hardness, bell, place)
        return track[:length].clone()

    @staticmethod
    def backward(ctx, grad_track):
        waves, velocity, hardness, bell, place = ctx.saved_tensors
        padded = torch.cat((grad_track, grad_track.new_zeros(1)))
        seen = padded[place]
        gain = velocity**hardness
        grad_waves = torch.zeros_like(waves).index_add(0, bell, gain[:, None] * seen)
        grad_gain = (seen * waves[bell]).sum(1)
        grad_velocity = grad_gain * hardness * gain / velocity
        grad_hardness = torch.dot(grad_gain, gain * velocity.log()).reshape(hardness.shape)
        return grad_waves, grad_velocity, grad_hardness, None, None, None


def tuning_loss(freqs: Tensor, goal: Optional[TuningGoal] = None) -> Tensor:
    """Squared cents beyond tolerance, averaged over bells."""
    goal = goal or TuningGoal()
    cents = PartialCents.apply(freqs, goal)
    excess = torch.relu(cents.abs() - goal.tolerance_cents)
    return excess.square().sum(1).mean()


class VirtualCarillon(torch.nn.Module):
    def __init__(self, bells: int, wave_len: int, length: int):
        super().__init__()
        self.length = length
        decay = torch.exp(-torch.arange(wave_len) / (0.3 * wave_len))
        self.waves = torch.nn.Parameter(0.1 * torch.randn(bells, wave_len) * decay)
        self.hardness = torch.nn.Parameter(torch.tensor(1.4))
        self.response = torch.nn.Parameter(torch.ones(length // 2 + 1, dtype=torch.cfloat))

    def forward(self, velocity, bell, onset):
        dry = ChimeTrack.apply(self.waves, velocity, self.hardness, bell, onset, self.length)
        return TowerResponse.apply(dry, self.response)
