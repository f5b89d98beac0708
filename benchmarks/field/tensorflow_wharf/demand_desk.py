# Price indices and budget shares for the consumption desk.  Keras 3 ops only, so
# that the same file serves the jax estimation runs and the torch notebooks.
from typing import NamedTuple

import numpy as np
from keras import ops


class Demand(NamedTuple):
    alpha: object  # [goods]         intercepts
    gamma: object  # [goods, goods]  log-price responses, row = share, column = price;
    #                 free, Slutsky symmetry is tested afterwards
    beta: object  # [goods]         expenditure responses


def _cotangent(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


def _up_to(n, dtype):
    # running sums as a triangular product; ops.cumsum goes through float32 in torch
    return ops.tril(ops.ones((n, n), dtype=dtype))


def make_tornqvist(chained=True):
    # prices, shares: [periods, goods], positive; result: [periods], first one = 1

    @ops.custom_gradient
    def index(prices, shares):
        logs = ops.log(prices)
        running = _up_to(prices.shape[0] - 1, prices.dtype)
        if chained:
            step = logs[1:] - logs[:-1]
            weight = 0.5 * (shares[1:] + shares[:-1])
            level = ops.sum(running @ (weight * step), axis=1)
        else:
            step = logs[1:] - logs[:1]
            weight = 0.5 * (shares[1:] + shares[:1])
            level = ops.sum(weight * step, axis=1)
        value = ops.exp(ops.concatenate([ops.zeros_like(level[:1]), level], axis=0))

        def grad(*args, upstream=None):
            g = ops.expand_dims((_cotangent(args, upstream) * value)[1:], 1)
            if chained:
                g = ops.transpose(running) @ g
            to_log, to_share = g * weight, 0.5 * g * step
            none = ops.zeros_like(logs[:1])
            if chained:
                d_log = ops.concatenate([none, to_log], axis=0) - ops.concatenate(
                    [to_log, none], axis=0
                )
                d_share = ops.concatenate([none, to_share], axis=0) + ops.concatenate(
                    [to_share, none], axis=0
                )
            else:
                d_log = ops.concatenate([-ops.sum(to_log, axis=0, keepdims=True), to_log], axis=0)
                d_share = ops.concatenate(
                    [ops.sum(to_share, axis=0, keepdims=True), to_share], axis=0
                )
            return d_log / prices, d_share

        return value, grad

    return index


@ops.custom_gradient
def budget_shares(log_prices, log_outlay, alpha, gamma, beta):
    # Almost ideal demand system with the translog deflator
    #   ln P = alpha . p + 0.5 * p' gamma p
    #   w    = alpha + gamma p + beta * (ln x - ln P)
    # log_prices [households, goods], log_outlay [households] -> shares [households, goods]
    bent = log_prices @ ops.transpose(gamma)
    deflator = ops.sum(alpha * log_prices, axis=1) + 0.5 * ops.sum(log_prices * bent, axis=1)
    real = ops.expand_dims(log_outlay - deflator, 1)
    shares = alpha + bent + beta * real

    def grad(*args, upstream=None):
        g = _cotangent(args, upstream)
        d_real = ops.sum(g * beta, axis=1)
        pull = ops.expand_dims(d_real, 1)
        d_prices = g @ gamma - pull * (alpha + bent)
        d_alpha = ops.sum(g - pull * log_prices, axis=0)
        d_gamma = ops.transpose(g - 0.5 * pull * log_prices) @ log_prices
        d_beta = ops.sum(g * real, axis=0)
        return d_prices, d_real, d_alpha, d_gamma, d_beta

    return shares, grad


def start_values(goods, seed=0):
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(goods, 4.0))
    gamma = 0.05 * rng.standard_normal((goods, goods))
    beta = 0.1 * rng.standard_normal(goods)
    return Demand(
        *(
            a.astype("float32")
            for a in (share, gamma - gamma.mean(0, keepdims=True), beta - beta.mean())
        )
    )


def share_loss(params, prices, outlay, observed):
    fit = budget_shares(ops.log(prices), ops.log(outlay), *params)
    return ops.mean(ops.square(fit - observed))


def price_elasticities(params, prices, outlay):
    """Marshallian elasticities at one price vector, [goods, goods]."""
    p = ops.expand_dims(ops.log(prices), 0)
    w = budget_shares(p, ops.reshape(ops.log(outlay), (1,)), *params)[0]
    both = 0.5 * (params.gamma + ops.transpose(params.gamma))
    slope = params.alpha + ops.matmul(both, p[0])
    cross = params.gamma - ops.expand_dims(params.beta, 1) * slope
    return cross / ops.expand_dims(w, 1) - ops.eye(len(prices))


def inflation_report(prices, shares):
    chain = make_tornqvist(chained=True)(prices, shares)
    fixed = make_tornqvist(chained=False)(prices, shares)
    return {"chained": chain, "fixed": fixed, "drift": chain - fixed}
