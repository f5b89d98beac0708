"""Server side of cross-device federated learning, differentiable end to end.

The meta-learner in ``tune_server`` differentiates a validation loss through a
handful of communication rounds, in order to set the clipping radius, the server
momentum and the server learning rate.  Clients may carry a private correction
of the output head (``PersonalisedHead``).

Everything works on flattened parameter vectors; ``ParameterLayout`` converts
between those and a module's named parameters.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Iterator, List, NamedTuple, Sequence, Tuple

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

NORM_FLOOR = 1e-12


class ParameterLayout:
    """Names and shapes of a module's parameters in flattening order."""

    def __init__(self, module: nn.Module):
        self.entries: List[Tuple[str, torch.Size]] = [
            (name, p.shape) for name, p in module.named_parameters()
        ]
        self.size = sum(shape.numel() for _, shape in self.entries)

    def flatten(self, module: nn.Module) -> torch.Tensor:
        return torch.cat([p.reshape(-1) for p in module.parameters()])

    def unflatten(self, vector: torch.Tensor) -> "OrderedDict[str, torch.Tensor]":
        out, at = OrderedDict(), 0
        for name, shape in self.entries:
            out[name] = vector[at:at + shape.numel()].reshape(shape)
            at += shape.numel()
        return out


class ClippedCohortMean(Function):
    """Example-weighted mean of client updates after l2 clipping.

    Every update longer than ``radius`` is scaled back onto the ball before
    averaging, ``u * min(1, radius / |u|)``; differentiates through the scaling,
    for the updates as well as for the radius.

    Args:
        updates (Tensor): one row per client, ``(clients, size)``.
        radius (Tensor): 0-d clipping radius.
        examples (LongTensor): examples held by each client.
        reported (BoolTensor): clients that answered in this round.  With no
            answers at all the mean is zero.
    """

    @staticmethod
    def forward(ctx, updates, radius, examples, reported):
        weight = (examples * reported).to(updates.dtype)
        weight = weight / weight.sum().clamp(min=1.0)
        norm = updates.norm(dim=1).clamp(min=NORM_FLOOR)
        clipped = norm > radius
        scale = torch.where(clipped, radius / norm, torch.ones_like(norm))
        ctx.save_for_backward(updates, radius, weight, norm, scale, clipped)
        return (weight * scale) @ updates

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        updates, radius, weight, norm, scale, clipped = ctx.saved_tensors
        along = updates @ grad
        g_updates = g_radius = None
        if ctx.needs_input_grad[0]:
            radial = torch.where(clipped, along / radius**2, torch.zeros_like(along))
            g_updates = (weight * scale)[:, None] * (grad - radial[:, None] * updates)
        if ctx.needs_input_grad[1]:
            g_radius = (weight * along / norm * clipped).sum()
        return g_updates, g_radius, None, None


class ServerMomentumTrace(Function):
    """Run the server optimiser over the aggregated deltas of all rounds.

    m_t = beta m_{t-1} + delta_t
    x_t = x_{t-1} + eta m_t                        (heavy ball)
    x_t = x_{t-1} + eta (beta m_t + delta_t)       (nesterov=True)

    Returns the iterates x_1..x_R, shape (R, n), and m_R, shape (n,).
    """

    @staticmethod
    def forward(ctx, start, deltas, beta, eta, nesterov=False):
        momentum = torch.zeros_like(start)
        moments, steps, path = [momentum], [], []
        x = start
        for delta in deltas:
            momentum = beta * momentum + delta
            step = beta * momentum + delta if nesterov else momentum
            x = x + eta * step
            moments.append(momentum)
            steps.append(step)
            path.append(x)
        ctx.save_for_backward(torch.stack(moments), torch.stack(steps), beta, eta)
        ctx.nesterov = nesterov
        return torch.stack(path), momentum.clone()

    @staticmethod
    def backward(ctx, g_path, g_momentum):
        moments, steps, beta, eta = ctx.saved_tensors
        g_x = torch.zeros_like(g_momentum)
        g_m = g_momentum
        g_deltas = torch.zeros_like(steps)
        g_beta = torch.zeros_like(beta)
        g_eta = torch.zeros_like(eta)
        for t in range(steps.shape[0] - 1, -1, -1):
            g_x = g_x + g_path[t]
            g_step = eta * g_x
            g_eta = g_eta + (g_x * steps[t]).sum()
            if ctx.nesterov:
                g_deltas[t] = g_step
                g_m = g_m + beta * g_step
            else:
                g_m = g_m + g_step
            g_deltas[t] += g_m
            g_beta = g_beta + (g_m * moments[t]).sum()
            g_m = beta * g_m
        return g_x, g_deltas, g_beta, g_eta, None


class PersonalisedHead(Function):
    """Linear head shared by everyone plus a gated correction per client.

    ``out[b] = (shared + gate[client[b]] * private[client[b]]) @ features[b]``
    """

    @staticmethod
    def forward(features, shared, private, gate, client):
        base = features @ shared.t()
        own = torch.einsum("boi,bi->bo", private[client], features)
        return base + gate[client][:, None] * own

    @staticmethod
    def setup_context(ctx, inputs, output):
        features, shared, private, gate, client = inputs
        ctx.save_for_backward(features, shared, private, gate, client)

    @staticmethod
    def backward(ctx, grad):
        features, shared, private, gate, client = ctx.saved_tensors
        gated = gate[client][:, None] * grad
        picked = private[client]
        g_features = g_shared = g_private = g_gate = None
        if ctx.needs_input_grad[0]:
            g_features = grad @ shared + torch.einsum("bo,boi->bi", gated, picked)
        if ctx.needs_input_grad[1]:
            g_shared = grad.t() @ features
        if ctx.needs_input_grad[2]:
            outer = gated[:, :, None] * features[:, None, :]
            g_private = torch.zeros_like(private).index_add_(0, client, outer)
        if ctx.needs_input_grad[3]:
            own = torch.einsum("boi,bi->bo", picked, features)
            g_gate = torch.zeros_like(gate).index_add_(0, client, (grad * own).sum(1))
        return g_features, g_shared, g_private, g_gate, None


class Round(NamedTuple):
    """What the server receives in one communication round."""

    updates: torch.Tensor  # clients x size
    examples: torch.Tensor
    reported: torch.Tensor


class PersonalisedClassifier(nn.Module):
    """Feature extractor with a personalised linear head."""

    def __init__(self, inputs: int, width: int, classes: int, clients: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, width), nn.GELU())
        self.shared = nn.Parameter(torch.randn(classes, width) / width**0.5)
        self.private = nn.Parameter(torch.zeros(clients, classes, width))
        self.gate_logit = nn.Parameter(torch.zeros(clients))

    def forward(self, x, client):
        gate = torch.sigmoid(self.gate_logit)
        return PersonalisedHead.apply(self.body(x), self.shared, self.private, gate, client)

    def federated_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters that leave the device; the private part stays."""
        yield from self.body.parameters()
        yield self.shared


class FederatedServer(nn.Module):
    """Aggregator with learnable clipping radius, momentum and rate."""

    def __init__(self, radius=1.0, beta=0.9, eta=1.0, nesterov=False):
        super().__init__()
        self.log_radius = nn.Parameter(torch.tensor(float(radius)).log())
        self.beta_logit = nn.Parameter(torch.logit(torch.tensor(float(beta))))
        self.log_eta = nn.Parameter(torch.tensor(float(eta)).log())
        self.nesterov = nesterov

    @property
    def radius(self):
        return self.log_radius.exp()

    def aggregate(self, rounds: Sequence[Round]) -> torch.Tensor:
        return torch.stack([
            ClippedCohortMean.apply(r.updates, self.radius, r.examples, r.reported)
            for r in rounds
        ])

    def forward(self, start, rounds: Sequence[Round]):
        deltas = self.aggregate(rounds)
        return ServerMomentumTrace.apply(
            start, deltas, torch.sigmoid(self.beta_logit), self.log_eta.exp(), self.nesterov
        )


def noise_multiplier(radius: float, epsilon: float, delta: float, cohort: int) -> float:
    """Gaussian-mechanism noise of the averaged update for one round."""
    import math

    return radius * math.sqrt(2.0 * math.log(1.25 / delta)) / (epsilon * cohort)


def tune_server(server, start, rounds, validate, steps=20, lr=0.05):
    """Descend the validation loss of the last iterate."""
    opt = torch.optim.Adam(server.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        path, momentum = server(start, rounds)
        loss = validate(path[-1]) + 1e-3 * momentum.square().sum()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    torch.manual_seed(7)
    size, clients = 12, 5
    target = torch.randn(size)
    rounds = [
        Round(
            0.4 * target + 0.3 * torch.randn(clients, size),
            torch.randint(1, 40, (clients,)),
            torch.rand(clients) > 0.3,
        )
        for _ in range(4)
    ]
    server = FederatedServer(radius=2.0, nesterov=False)
    print(tune_server(server, torch.zeros(size), rounds, lambda x: (x - target).square().mean()))
    net = PersonalisedClassifier(6, 8, 3, clients)
    out = net(torch.randn(10, 6), torch.randint(0, clients, (10,)))
    out.logsumexp(1).sum().backward()
    print(ParameterLayout(net).size, net.gate_logit.grad)
