import math

import torch
import torch.nn.functional as F
from torch.distributions import Normal


class SquashedGaussian:
    def __init__(self, loc, scale):
        self.base = Normal(loc, scale)

    def rsample_with_log_prob(self):
        u = self.base.rsample()
        return torch.tanh(u), self.log_prob_pre(u)

    def log_prob_pre(self, u):
        logp = self.base.log_prob(u)
        logp = logp - 2 * (math.log(2.0) - u - F.softplus(-2 * u))
        return logp.sum(-1)
