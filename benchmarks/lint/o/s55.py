import torch
import torch.nn as nn
from torch.distributions import Normal


class SquashedActor(nn.Module):
    """Gaussian policy whose actions are squashed to [-1, 1]."""

    def __init__(self, obs_dim, act_dim, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, act_dim)
        self.log_std = nn.Linear(hidden, act_dim)

    def forward(self, obs):
        h = self.body(obs)
        dist = Normal(self.mu(h), self.log_std(h).clamp(-5, 2).exp())
        return self.squash(dist, dist.rsample())

    @staticmethod
    def squash(dist, u):
        action = torch.tanh(u)
        log_jac = torch.log(1 - action.pow(2))
        logp = dist.log_prob(u) - log_jac
        return action, logp.sum(dim=-1)
