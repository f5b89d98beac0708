"""Author royalties: sliding scales and the recoupment of advances (Keras ops)."""
import keras
from keras import ops

DEFAULTS = {"cumulative": True, "periods_per_year": 2}


def _upstream(args, upstream):
    return args[-1] if upstream is None else upstream


def _history(periods, dtype):
    """[T, T] with ones where the column's period is not after the row's."""
    return ops.cast(ops.tril(ops.ones((periods, periods))), dtype)


def _lag(x):
    """Shift by one period, with a zero in front."""
    return ops.concatenate([ops.zeros_like(x[:, :1]), x[:, :-1]], axis=1)


def _lead(x):
    return ops.concatenate([x[:, 1:], ops.zeros_like(x[:, :1])], axis=1)


def make_sliding_scale(contract, contracts, cumulative=DEFAULTS["cumulative"]):
    """Royalty per period under escalators.

    :param contract: int [B], the contract of each title; titles share contracts
    :param contracts: number P of contracts
    :param cumulative: escalators count copies since publication; otherwise those
        of the period alone

    The returned ``scale(copies, edges, rates)`` takes copies sold [B, T], positive,
    increasing positive edges [P, J - 1] and the amount per copy below the first
    edge, between edges, and above the last one [P, J]. It gives [B, T].
    """

    @ops.custom_gradient
    def scale(copies, edges, rates):
        dtype = keras.backend.standardize_dtype(copies.dtype)
        member = ops.cast(ops.one_hot(ops.convert_to_tensor(contract, dtype="int32"), contracts), dtype)
        knots = ops.concatenate([ops.zeros_like(rates[:, :1]), edges], axis=1)
        jumps = ops.concatenate([rates[:, :1], rates[:, 1:] - rates[:, :-1]], axis=1)
        knot = ops.einsum("bp,pj->bj", member, knots)[:, None, :]
        jump = ops.einsum("bp,pj->bj", member, jumps)[:, None, :]
        past = _history(copies.shape[1], dtype)
        sold = ops.einsum("ts,bs->bt", past, copies) if cumulative else copies
        above = sold[:, :, None] - knot  # [B, T, J]
        passed = ops.cast(above > 0, dtype)
        due = ops.sum(jump * above * passed, axis=2)
        out = due - _lag(due) if cumulative else due

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            if cumulative:
                g = g - _lead(g)
            slope = ops.sum(jump * passed, axis=2)
            g_copies = g * slope
            if cumulative:
                g_copies = ops.einsum("ts,bt->bs", past, g_copies)
            g_jump = ops.sum(g[:, :, None] * above * passed, axis=1)
            g_knot = -ops.sum(g[:, :, None] * passed, axis=1) * jump[:, 0, :]
            g_jump = ops.einsum("bp,bj->pj", member, g_jump)
            g_knot = ops.einsum("bp,bj->pj", member, g_knot)
            return g_copies, g_knot[:, 1:], g_jump - _lead(g_jump)

        return out, grad

    return scale


@ops.custom_gradient
def payable_after_advance(earned, advance, interest):
    """Royalties that are paid out once an advance is earned back.

    Args:
        earned: royalties of each period, [B, T].
        advance: paid to the author before the first period, [B].
        interest: charged per period on what is not yet earned back, [B].

    Returns:
        Payments, [B, T].
    """
    periods = earned.shape[1]
    growth = 1.0 + interest
    balances, payments = [advance], []
    for t in range(periods):
        net = earned[:, t] - balances[-1]
        payments.append(ops.relu(net))
        balances.append(ops.relu(-net) * growth)

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        g_balance = ops.zeros_like(advance)
        g_interest = ops.zeros_like(interest)
        g_earned = []
        for t in reversed(range(periods)):
            unearned = balances[t] > earned[:, t]
            g_interest = g_interest + g_balance * balances[t + 1]
            g_open = g_balance * growth
            g_net = ops.where(unearned, -g_open, g[:, t])
            g_earned.append(g_net)
            g_balance = -g_net
        return ops.stack(g_earned[::-1], axis=1), g_balance, g_interest

    return ops.stack(payments, axis=1), grad


class RoyaltyStatement(keras.layers.Layer):
    """From copies to payments, with trained contract terms."""

    def __init__(self, contracts, steps=3, cumulative=True, **kwargs):
        super().__init__(**kwargs)
        self.contracts = contracts
        self.steps = steps
        self.cumulative = cumulative

    def build(self, *shapes):
        self.gaps = self.add_weight(
            name="gaps", shape=(self.contracts, self.steps - 1), initializer="ones")
        self.rates = self.add_weight(
            name="rates", shape=(self.contracts, self.steps), initializer="ones")

    def call(self, copies, advance, interest, contract):
        scale = make_sliding_scale(contract, self.contracts, self.cumulative)
        edges = ops.cumsum(ops.softplus(self.gaps), axis=1)
        earned = scale(copies, edges, ops.softplus(self.rates))
        yearly = interest / DEFAULTS["periods_per_year"]
        return payable_after_advance(earned, advance, yearly)
