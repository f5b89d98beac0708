"""Low-bit activations and spiking units."""

from typing import Callable, NamedTuple, Optional, Union

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class PACTFunction(Function):
    """Parameterised clipping activation, quantised to ``bits`` bits.

    ``x`` is clipped to ``[0, alpha]`` and rounded to ``2**bits - 1`` steps. The rounding is passed straight
    through, so the gradients, of ``x`` and of the clipping level, are those of ``clamp(x, 0, alpha)``.

    Args:
        x (Tensor): activations.
        alpha (Tensor): clipping level, positive; broadcasts against ``x``.
        bits (int): bit width.
    """

    @staticmethod
    def forward(ctx, x: Tensor, alpha: Tensor, bits: int = 4) -> Tensor:
        ctx.save_for_backward(x, alpha)
        step = alpha / (2**bits - 1)
        return torch.round(torch.minimum(x.clamp(min=0), alpha) / step) * step

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, alpha = ctx.saved_tensors
        saturated = x >= alpha
        grad_x = grad_output * (x > 0)
        grad_alpha = (grad_output * saturated).sum_to_size(alpha.shape)
        return grad_x, grad_alpha, None


class PACT(nn.Module):
    def __init__(self, bits: int = 4, init: float = 6.0) -> None:
        super().__init__()
        self.bits = bits
        self.alpha = nn.Parameter(torch.tensor(init))

    def forward(self, x: Tensor) -> Tensor:
        return PACTFunction.apply(x, self.alpha, self.bits)


class TensorClampSteFunction(Function):
    """Clamp between two tensors; straight-through estimator: the gradient of ``x`` is the cotangent unchanged."""

    @staticmethod
    def forward(ctx, x: Tensor, min_val: Tensor, max_val: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(x, min_val), max_val)

    @staticmethod
    def backward(ctx, grad_y: Tensor):
        return grad_y, None, None


def make_noise_round(levels: int = 16) -> Callable[[Tensor, Tensor], Tensor]:
    """Rounding to multiples of ``1 / levels`` by a given uniform noise, with a straight-through gradient.

    The function returned takes ``x`` and ``noise`` in [0, 1) of the same shape, and gives
    ``floor(levels * x + noise) / levels``; backward treats it as the identity in ``x``.
    """

    class NoiseRoundSte(Function):
        @staticmethod
        def forward(ctx, x, noise):
            return torch.floor(x * levels + noise) / levels

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    def noise_round(x: Tensor, noise: Tensor) -> Tensor:
        return NoiseRoundSte.apply(x, noise)

    return noise_round


class TriangularSpikeFunction(Function):
    """Heaviside spike with a triangular surrogate gradient.

    Forward: 1 where ``v >= threshold``, else 0. Backward uses the pseudo-derivative
    ``gamma * max(0, 1 - |v - threshold| / width)`` for ``v`` and its negative for ``threshold``.
    """

    @staticmethod
    def forward(ctx, v, threshold: Union[float, Tensor] = 1.0, gamma: float = 0.3, width: float = 1.0):
        ctx.shape = threshold.shape if isinstance(threshold, Tensor) else None
        shifted = v - threshold
        ctx.save_for_backward(shifted)
        ctx.gamma, ctx.width = gamma, width
        return (shifted >= 0).to(v.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (shifted,) = ctx.saved_tensors
        grad = grad_output * ctx.gamma * (1.0 - shifted.abs() / ctx.width).clamp(min=0)
        grad_threshold = None
        if ctx.shape is not None and ctx.needs_input_grad[1]:
            grad_threshold = -grad.sum_to_size(ctx.shape)
        return grad, grad_threshold, None, None


class IntegratorState(NamedTuple):
    i: Tensor
    v: Tensor


class SynapticIntegrator(nn.Module):
    """Current-based leaky integrator over a whole sequence (no spikes)."""

    class Scan(Function):
        """``i_t = alpha * i_{t-1} + x_t``; ``v_t = beta * v_{t-1} + i_t``, along the first dimension of ``x``.

        ``x`` is ``(time, batch, units)``, ``alpha`` and ``beta`` are ``(units,)``, the states ``(batch, units)``.
        Gives all ``v``, the last ``i`` and the last ``v``.
        """

        @staticmethod
        def forward(ctx, x, alpha, beta, i0, v0):
            i, v = i0, v0
            currents, voltages = [], []
            for x_t in x:
                i = alpha * i + x_t
                v = beta * v + i
                currents.append(i)
                voltages.append(v)
            currents, voltages = torch.stack(currents), torch.stack(voltages)
            ctx.save_for_backward(alpha, beta, i0, currents, voltages)
            return voltages, i.clone(), v.clone()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_voltages, grad_i, grad_v):
            alpha, beta, i0, currents, voltages = ctx.saved_tensors
            grad_x = torch.zeros_like(currents)
            grad_alpha, grad_beta = torch.zeros_like(alpha), torch.zeros_like(beta)
            di, dv = grad_i, grad_v
            for t in range(currents.shape[0] - 1, -1, -1):
                dv = dv + grad_voltages[t]
                di = di + dv
                grad_x[t] = di
                grad_alpha += (di * (currents[t - 1] if t else i0)).sum(0)
                if t > 0:
                    grad_beta += (dv * voltages[t - 1]).sum(0)
                di = di * alpha
                dv = dv * beta
            return grad_x, grad_alpha, grad_beta, di, dv

    def __init__(self, units: int, tau_syn: float = 5.0, tau_mem: float = 20.0):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((units,), 1.0 - 1.0 / tau_syn))
        self.beta = nn.Parameter(torch.full((units,), 1.0 - 1.0 / tau_mem))

    def forward(self, x: Tensor, state: Optional[IntegratorState] = None):
        if state is None:
            zeros = torch.zeros_like(x[0])
            state = IntegratorState(zeros, zeros)
        voltages, i, v = self.Scan.apply(x, self.alpha, self.beta, state.i, state.v)
        return voltages, IntegratorState(i, v)
