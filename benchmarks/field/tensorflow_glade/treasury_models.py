"""Short-rate discounting and cash accounts, on any Keras backend."""

import math

import keras
from keras import ops

_SMALL = 0.3
_TERMS = 18

# (1 - exp(-x)) / x = sum c_n x^n
_C = [(-1.0) ** n / math.factorial(n + 1) for n in range(_TERMS + 2)]
_C_SLOPE = [(n + 1) * _C[n + 1] for n in range(_TERMS)]
# (1 - 2 f(x) + f(2 x)) / x^2 for the f above
_V = [_C[n + 2] * (2.0 ** (n + 2) - 2.0) for n in range(_TERMS)]
_V_SLOPE = [(n + 1) * _V[n + 1] for n in range(_TERMS - 1)]


def _poly(x, coefficients):
    """Horner, lowest order first."""
    acc = ops.zeros_like(x) + coefficients[-1]
    for c in coefficients[-2::-1]:
        acc = acc * x + c
    return acc


def _loading(x):
    """f(x) = (1 - exp(-x)) / x and f'(x), no care near zero."""
    f = -ops.expm1(-x) / x
    return f, (ops.exp(-x) - f) / x


def _vasicek_functions(x):
    """f, f', v, v' at x >= 0, where v = (1 - 2 f(x) + f(2 x)) / x**2."""
    small = x < _SMALL
    far = ops.where(small, ops.ones_like(x), x)
    near = ops.where(small, x, ops.zeros_like(x))
    f, f_x = _loading(far)
    f2, f2_x = _loading(2.0 * far)
    v = (1.0 - 2.0 * f + f2) / far**2
    v_x = 2.0 * (f2_x - f_x) / far**2 - 2.0 * v / far
    exact = (f, f_x, v, v_x)
    series = (_C, _C_SLOPE, _V, _V_SLOPE)
    return tuple(ops.where(small, _poly(near, s), e) for s, e in zip(series, exact))


@ops.custom_gradient
def vasicek_log_discount(rate, kappa, theta, sigma, maturity):
    """Log price of zero-coupon bonds under ``dr = kappa (theta - r) dt + sigma dW``.

    ``-r B - theta (m - B) + sigma**2 m**3 v(kappa m) / 2`` with ``B = m f(kappa m)``.

    Args:
        rate: ``(scenarios,)`` short rate today, any sign.
        kappa: scalar, mean reversion. Zero is allowed (Ho-Lee without drift).
        theta: scalar, long-run rate.
        sigma: scalar, non-negative volatility.
        maturity: ``(M,)`` non-negative years.

    Returns:
        ``(scenarios, M)`` logs of the discount factors.
    """
    x = kappa * maturity
    f, f_x, v, v_x = _vasicek_functions(x)
    annuity = maturity * f
    convexity = 0.5 * maturity**3 * v
    gap = theta - rate[:, None]
    out = gap * annuity[None, :] - theta * maturity[None, :] + (sigma**2 * convexity)[None, :]

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        per_maturity = ops.sum(upstream, axis=0)
        pulled = ops.sum(upstream * gap, axis=0)
        d_rate = -ops.sum(upstream * annuity[None, :], axis=1)
        d_kappa = ops.sum(pulled * maturity**2 * f_x)
        d_kappa = d_kappa + 0.5 * sigma**2 * ops.sum(per_maturity * maturity**4 * v_x)
        d_theta = ops.sum(per_maturity * (annuity - maturity))
        d_sigma = 2.0 * sigma * ops.sum(per_maturity * convexity)
        # minus the expected forward rate
        d_maturity = pulled * ops.exp(-x) + per_maturity * (0.5 * (sigma * annuity) ** 2 - theta)
        return d_rate, d_kappa, d_theta, d_sigma, d_maturity

    return out, grad


def make_cash_account(compounding="simple", period=1.0):
    """Balances of an account that lends and borrows at different rates.

    In every period the flow is booked first; then the balance ``x`` grows to ``x * (1 + rate *
    period)`` (``compounding="simple"``) or ``x * exp(rate * period)`` (``"continuous"``). The
    rate is ``lend`` for a positive and ``borrow`` for a negative balance.

    Args:
        compounding: "simple" or "continuous".
        period: length of a period in years.

    Returns:
        ``account(opening, flows, lend, borrow)``: opening ``(accounts,)``, flows ``(accounts, T)``,
        annual rates ``(T,)``, common to the accounts; gives the balances ``(accounts, T)``.
    """
    if compounding not in ("simple", "continuous"):
        raise ValueError(f"unknown compounding {compounding!r}")

    def growth_of(rate):
        if compounding == "simple":
            return 1.0 + rate * period
        return ops.exp(rate * period)

    @ops.custom_gradient
    def account(opening, flows, lend, borrow):
        up, down = growth_of(lend), growth_of(borrow)
        balance, booked, factors, out = opening, [], [], []
        for t in range(flows.shape[1]):
            x = balance + flows[:, t]
            factor = ops.where(x >= 0.0, up[t], down[t])
            balance = x * factor
            booked.append(x)
            factors.append(factor)
            out.append(balance)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            adj = ops.zeros_like(opening)
            d_flows, d_lend, d_borrow = [], [], []
            for t in range(len(booked) - 1, -1, -1):
                adj = adj + upstream[:, t]
                interest = adj * booked[t] * period
                credit = booked[t] >= 0.0
                nothing = ops.zeros_like(interest)
                d_lend.append(ops.sum(ops.where(credit, interest, nothing)))
                d_borrow.append(ops.sum(ops.where(credit, nothing, interest)))
                adj = adj * factors[t]
                d_flows.append(adj)
            return (
                adj,
                ops.stack(d_flows[::-1], axis=1),
                ops.stack(d_lend[::-1]),
                ops.stack(d_borrow[::-1]),
            )

        return ops.stack(out, axis=1), grad

    return account


class ShortRateCurve(keras.layers.Layer):
    """Vasicek curve with trainable dynamics; input (scenarios,) rates, output discount factors."""

    def __init__(self, maturities, **kwargs):
        super().__init__(**kwargs)
        self.maturities = [float(m) for m in maturities]

    def build(self, shape):
        constant = keras.initializers.Constant
        self.raw_kappa = self.add_weight(name="kappa", shape=(), initializer=constant(-1.0))
        self.theta_percent = self.add_weight(name="theta", shape=(), initializer=constant(3.0))
        self.raw_sigma = self.add_weight(name="sigma", shape=(), initializer=constant(-4.0))

    def call(self, rate):
        maturity = ops.convert_to_tensor(self.maturities, dtype=rate.dtype)
        kappa, sigma = ops.softplus(self.raw_kappa), ops.softplus(self.raw_sigma)
        theta = 0.01 * self.theta_percent
        return ops.exp(vasicek_log_discount(rate, kappa, theta, sigma, maturity))


def funding_shortfall(opening, flows, lend, borrow, floor=0.0, compounding="simple"):
    """Mean squared amount by which the accounts fall below a floor."""
    balances = make_cash_account(compounding)(opening, flows, lend, borrow)
    return ops.mean(ops.relu(floor - balances) ** 2)
