import math

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class DiscountedReturns(Function):
    # rewards   [T, B]
    # dones     [T, B] bool, True where the episode ended *after* step t
    # bootstrap [B]    value estimate behind the last step
    # R_t = r_t + gamma * (1 - done_t) * R_{t+1},   R_T = bootstrap
    @staticmethod
    def forward(ctx, rewards, dones, bootstrap, gamma):
        live = (~dones.bool()).to(rewards.dtype)
        ret = torch.empty_like(rewards)
        nxt = bootstrap
        for t in range(rewards.shape[0] - 1, -1, -1):
            nxt = rewards[t] + gamma * live[t] * nxt
            ret[t] = nxt
        ctx.save_for_backward(live)
        ctx.gamma = gamma
        return ret

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_ret):
        live, = ctx.saved_tensors
        gamma = ctx.gamma
        grad_r = torch.empty_like(grad_ret)
        run = torch.zeros_like(grad_ret[0])
        for t in range(grad_ret.shape[0]):
            run = grad_ret[t] + gamma * live[t] * run
            grad_r[t] = run
        return grad_r, None, gamma * live[-1] * run, None


def monte_carlo_value_loss(values, rewards, dones, bootstrap, gamma=0.99):
    """Monte-Carlo value loss; reward model is trained through the returns."""
    target = DiscountedReturns.apply(rewards, dones, bootstrap, gamma)
    return F.mse_loss(values, target)


class GAE(Function):
    # rewards [T, B], values [T+1, B], dones [T, B] bool -> advantages [T, B], returns [T, B]
    @staticmethod
    def forward(ctx, rewards, values, dones, gamma=0.99, lam=0.95):
        live = (~dones.bool()).to(rewards.dtype)
        delta = rewards + gamma * live * values[1:] - values[:-1]
        adv = torch.empty_like(delta)
        run = torch.zeros_like(delta[0])
        for t in reversed(range(delta.shape[0])):
            run = delta[t] + gamma * lam * live[t] * run
            adv[t] = run
        ctx.save_for_backward(live)
        ctx.gamma, ctx.lam = gamma, lam
        return adv, adv + values[:-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, g_adv, g_ret):
        (live,) = ctx.saved_tensors
        g = g_adv + g_ret
        adj = torch.empty_like(g)
        adj[0] = g[0]
        for t in range(1, g.shape[0]):
            adj[t] = g[t] + ctx.gamma * ctx.lam * live[t - 1] * adj[t - 1]
        g_values = torch.zeros(g.shape[0] + 1, *g.shape[1:], dtype=g.dtype, device=g.device)
        g_values[:-1] = g_ret - adj
        g_values[1:] += ctx.gamma * live * adj
        return adj, g_values, None, None, None


class PPOClipObjective(Function):
    # logp, logp_old, adv: [N];  scalar loss  -E[min(r A, clip(r, 1-eps, 1+eps) A)]
    @staticmethod
    def forward(ctx, logp, logp_old, adv, clip_eps=0.2):
        ratio = torch.exp(logp - logp_old)
        clipped = ratio.clamp(1 - clip_eps, 1 + clip_eps)
        surr = torch.minimum(ratio * adv, clipped * adv)
        ctx.save_for_backward(ratio, clipped, adv)
        ctx.clip_eps = clip_eps
        return -surr.mean()

    @staticmethod
    def backward(ctx, grad_loss):
        ratio, clipped, adv = ctx.saved_tensors
        scale = -grad_loss / ratio.numel()
        inside = (ratio > 1 - ctx.clip_eps) & (ratio < 1 + ctx.clip_eps)
        g_logp = scale * ratio * adv * inside
        picked = torch.where(ratio * adv < clipped * adv, ratio, clipped)
        return g_logp, -g_logp, scale * picked, None


def ppo_loss(dist_logits, actions, logp_old, adv, clip_eps=0.2, ent_coef=0.01):
    logits = F.log_softmax(dist_logits, -1)
    logp = logits.gather(-1, actions[:, None]).squeeze(-1)
    entropy = -(logits.exp() * logits).sum(-1).mean()
    return PPOClipObjective.apply(logp, logp_old, adv, clip_eps) - ent_coef * entropy


class TanhGaussian(Function):
    """action = tanh(u) and its log-density under u ~ N(mu, exp(log_std)).

    mu, log_std, u: [B, A].  Returns action [B, A], logp [B].
    """

    @staticmethod
    def forward(ctx, mu, log_std, u):
        z = (u - mu) * torch.exp(-log_std)
        base = -0.5 * z ** 2 - log_std - 0.5 * math.log(2 * math.pi)
        log_jac = 2 * (math.log(2.0) - u - F.softplus(-2 * u))
        action = torch.tanh(u)
        ctx.save_for_backward(z, log_std, action)
        return action, (base - log_jac).sum(-1)

    @staticmethod
    def backward(ctx, g_action, g_logp):
        z, log_std, action = ctx.saved_tensors
        g = g_logp.unsqueeze(-1)
        zs = z * torch.exp(-log_std)
        g_mu = g * zs
        g_log_std = g * (z ** 2 - 1)
        g_u = g * (2 * action - zs) + g_action * (1 - action ** 2)
        return g_mu, g_log_std, g_u


def sac_actor_sample(mu, log_std, noise):
    """Reparametrised SAC sample."""
    u = mu + log_std.exp() * noise
    return TanhGaussian.apply(mu, log_std, u)
