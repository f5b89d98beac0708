import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal


class GaussianTanhActor(nn.Module):
    """Gaussian policy, tanh output."""

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
        log_jac = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))
        logp = dist.log_prob(u) - log_jac
        return action, logp.sum(dim=-1)
