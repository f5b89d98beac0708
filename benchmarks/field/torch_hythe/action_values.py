"""Value heads and targets for replayed, off-policy agents.

Rollouts are time-major, ``[T, B]``; heads work on flat batches.  Environments
may forbid actions (``legal`` masks), episodes end inside a rollout (``done``),
and returns are kept on a compressed scale so that one network can serve games
whose scores differ by orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Tuple, Type

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

RESCALE_EPSILON = 1e-3
ILLEGAL_VALUE = -50.0
LOG_POLICY_FLOOR = -1.0


class Rollout(NamedTuple):
    observation: Tensor   # [T + 1, B, features]
    action: Tensor        # [T, B]
    reward: Tensor        # [T, B]
    done: Tensor          # [T, B] bool, true where the step ended an episode
    behaviour: Tensor     # [T, B] probability of the action when it was taken
    legal: Tensor         # [T + 1, B, A] bool


@dataclass(frozen=True)
class AgentConfig:
    gamma: float = 0.97
    trace_lambda: float = 0.95
    entropy_scale: float = 0.03
    munchausen_alpha: float = 0.9
    quantiles: int = 5


class MaskedDueling(Function):
    """Joins a state value and action advantages into action values.

    ``q[b, a, n] = value[b, n] + advantage[b, a, n] - centre[b, n]``, where the
    centre is the average advantage of the actions that are legal in the state.
    Illegal actions are given ``ILLEGAL_VALUE``.

    Parameters
    ----------
    value : Tensor [batch, quantiles]
    advantage : Tensor [batch, actions, quantiles]
    legal : BoolTensor [batch, actions], at least one legal action per state
    """

    @staticmethod
    def forward(ctx, value, advantage, legal):
        mask = legal.unsqueeze(-1)
        weight = mask.to(advantage.dtype)
        centre = (advantage * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
        q = value.unsqueeze(1) + advantage - centre
        ctx.save_for_backward(weight)
        return torch.where(mask, q, torch.full_like(q, ILLEGAL_VALUE))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_q):
        weight, = ctx.saved_tensors
        live = grad_q * weight
        grad_value = live.sum(1)
        grad_advantage = (live - live.mean(1, keepdim=True)) * weight
        return grad_value, grad_advantage, None


class MunchausenTarget(Function):
    r"""Entropy-regularised one-step target with the log-policy bonus.

    .. math::
        r + \alpha [\tau \log\pi(a|s)]_{l_0}^{0}
          + \gamma (1 - d)\, \tau \log \sum_{a'} \exp(q(s', a') / \tau)

    The bonus is clipped from below at :math:`l_0`; where the clip is active
    nothing flows into ``q_now``.
    """

    @staticmethod
    def forward(q_now, q_next, reward, action, done, alpha, tau, gamma):
        log_policy = torch.log_softmax(q_now / tau, -1)
        taken = tau * log_policy.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        bonus = alpha * taken.clamp(min=LOG_POLICY_FLOOR)
        soft_value = tau * torch.logsumexp(q_next / tau, -1)
        alive = (~done).to(reward.dtype)
        return reward + bonus + gamma * alive * soft_value

    @staticmethod
    def setup_context(ctx, inputs, output):
        q_now, q_next, _, action, done, alpha, tau, gamma = inputs
        ctx.save_for_backward(q_now, q_next, action, done)
        ctx.alpha, ctx.tau, ctx.gamma = alpha, tau, gamma

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_target):
        q_now, q_next, action, done = ctx.saved_tensors
        log_policy = torch.log_softmax(q_now / ctx.tau, -1)
        index = action.unsqueeze(-1)
        open_ = ctx.tau * log_policy.gather(-1, index) > LOG_POLICY_FLOOR
        pulled = ctx.alpha * grad_target.unsqueeze(-1) * open_.to(grad_target.dtype)
        grad_now = (-pulled * log_policy.exp()).scatter_add(-1, index, pulled)

        alive = (~done).to(grad_target.dtype)
        next_policy = torch.softmax(q_next / ctx.tau, -1)
        grad_next = (ctx.gamma * alive * grad_target).unsqueeze(-1) * next_policy
        return grad_now, grad_next, grad_target, None, None, None, None, None


class RetraceReturn(Function):
    """Trace-corrected returns over a rollout.

    With ``delta[t] = reward[t] + gamma * (1 - done[t]) * next_value[t] - q[t]``,

        correction[t] = delta[t]
                        + gamma * (1 - done[t]) * trace[t + 1] * correction[t + 1]

    and the result is ``q + correction``.  ``trace[0]`` is not read.  All tensors
    are ``[T, B]``; ``done`` is boolean.
    """

    @staticmethod
    def forward(ctx, q, next_value, reward, trace, done, gamma):
        keep = gamma * (~done).to(q.dtype)
        delta = reward + keep * next_value - q
        correction = torch.empty_like(delta)
        carry = torch.zeros_like(delta[0])
        for t in reversed(range(delta.shape[0])):
            if t + 1 < delta.shape[0]:
                carry = keep[t] * trace[t + 1] * carry
            carry = delta[t] + carry
            correction[t] = carry
        ctx.save_for_backward(keep, trace, correction)
        ctx.gamma = gamma
        return q + correction

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_return):
        keep, trace, correction = ctx.saved_tensors
        steps = grad_return.shape[0]
        adjoint = torch.empty_like(grad_return)
        grad_trace = torch.zeros_like(trace)
        adjoint[0] = grad_return[0]
        for t in range(1, steps):
            arriving = ctx.gamma * adjoint[t - 1]
            adjoint[t] = grad_return[t] + trace[t] * arriving
            grad_trace[t] = keep[t - 1] * adjoint[t - 1] * correction[t]
        return grad_return - adjoint, keep * adjoint, adjoint, grad_trace, None, None


def compress_return(x: Tensor, epsilon: float = RESCALE_EPSILON) -> Tensor:
    """``sign(x) (sqrt(|x| + 1) - 1) + epsilon x``."""
    return torch.sign(x) * (torch.sqrt(x.abs() + 1.0) - 1.0) + epsilon * x


def value_rescaling(epsilon: float = RESCALE_EPSILON) -> Type[Function]:
    """Build the expansion that undoes :func:`compress_return`."""

    class ExpandReturn(Function):
        """Return scale from compressed scale, elementwise, odd in its argument."""

        @staticmethod
        def _root(compressed):
            lifted = compressed.abs() + 1.0 + epsilon
            radical = torch.sqrt(1.0 + 4.0 * epsilon * lifted)
            return 2.0 * lifted / (1.0 + radical), radical

        @staticmethod
        def forward(compressed):
            root, _ = ExpandReturn._root(compressed)
            return torch.sign(compressed) * (root * root - 1.0)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_return):
            compressed, = ctx.saved_tensors
            root, radical = ExpandReturn._root(compressed)
            return grad_return * 2.0 * root / radical

    return ExpandReturn


class DuelingNetwork(nn.Module):
    def __init__(self, features: int, actions: int, quantiles: int = 5, hidden: int = 64):
        super().__init__()
        self.actions, self.quantiles = actions, quantiles
        self.trunk = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, quantiles)
        self.advantage = nn.Linear(hidden, actions * quantiles)

    def forward(self, observation: Tensor, legal: Tensor) -> Tensor:
        lead = observation.shape[:-1]
        h = self.trunk(observation.reshape(-1, observation.shape[-1]))
        advantage = self.advantage(h).view(-1, self.actions, self.quantiles)
        q = MaskedDueling.apply(self.value(h), advantage, legal.reshape(-1, self.actions))
        return q.mean(-1).reshape(*lead, self.actions)


class ReplayLearner(nn.Module):
    """Losses of one learner step, from a rollout to a scalar."""

    def __init__(self, features: int, actions: int, config: Optional[AgentConfig] = None):
        super().__init__()
        self.config = config or AgentConfig()
        self.online = DuelingNetwork(features, actions, self.config.quantiles)
        self.log_trace = nn.Parameter(torch.zeros(()))
        self.expand = value_rescaling()

    def traces(self, q: Tensor, rollout: Rollout) -> Tensor:
        policy = torch.softmax(q[:-1] / self.config.entropy_scale, -1)
        ratio = policy.gather(-1, rollout.action.unsqueeze(-1)).squeeze(-1) / rollout.behaviour
        scale = self.config.trace_lambda * torch.exp(-torch.relu(self.log_trace))
        return scale * ratio.clamp(max=1.0)

    def forward(self, rollout: Rollout) -> Tuple[Tensor, Dict[str, Any]]:
        cfg = self.config
        q = self.online(rollout.observation, rollout.legal)
        taken = q[:-1].gather(-1, rollout.action.unsqueeze(-1)).squeeze(-1)
        policy = torch.softmax(q / cfg.entropy_scale, -1)
        next_value = self.expand.apply((policy * q).sum(-1))[1:]
        returns = RetraceReturn.apply(
            self.expand.apply(taken), next_value, rollout.reward,
            self.traces(q, rollout), rollout.done, cfg.gamma,
        )
        one_step = MunchausenTarget.apply(
            q[:-1], q[1:], rollout.reward, rollout.action, rollout.done,
            cfg.munchausen_alpha, cfg.entropy_scale, cfg.gamma,
        )
        long_gap = taken - compress_return(returns)
        short_gap = taken - one_step
        loss = long_gap.square().mean() + 0.1 * short_gap.square().mean()
        return loss, {"return": returns.mean().item(), "q": taken.mean().item()}


def random_rollout(steps: int, batch: int, features: int, actions: int) -> Rollout:
    legal = torch.rand(steps + 1, batch, actions) > 0.3
    legal[..., 0] = True
    action = legal[:-1].to(torch.float32).flatten(0, 1).multinomial(1).view(steps, batch)
    return Rollout(
        torch.randn(steps + 1, batch, features), action, torch.randn(steps, batch),
        torch.rand(steps, batch) < 0.15, 0.2 + 0.8 * torch.rand(steps, batch), legal,
    )


if __name__ == "__main__":
    torch.manual_seed(5)
    learner = ReplayLearner(features=7, actions=4)
    optimiser = torch.optim.Adam(learner.parameters(), lr=1e-3)
    for _ in range(3):
        optimiser.zero_grad()
        loss, info = learner(random_rollout(8, 3, 7, 4))
        loss.backward()
        optimiser.step()
        print(round(loss.item(), 4), info)
