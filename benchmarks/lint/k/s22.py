import torch
from torch.distributions import Normal


class SquashedGaussian:
    def __init__(self, loc, scale):
        self.base = Normal(loc, scale)

    def rsample_with_log_prob(self):
        u = self.base.rsample()
        return torch.tanh(u), self.log_prob_pre(u)

    def log_prob_pre(self, u):
        action = torch.tanh(u)
        logp = self.base.log_prob(u)
        logp = logp - torch.log(1 - action.pow(2))
        return logp.sum(-1)
