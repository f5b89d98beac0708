"""Small differentiable models for the decision notebooks; any Keras 3 backend."""
import keras
from keras import ops

PYTHAGENPAT = 0.287


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


def _product(columns):
    # ops.prod drops to single precision on one of the backends
    total = columns[0]
    for column in columns[1:]:
        total = total * column
    return total


def make_quantal_response(legal=None):
    """Logit quantal response of the row player.

    Returns `quantal_response(payoff, opponent, precision)`, with
    softmax over rows of `precision[b] * payoff @ opponent[b]`.

    payoff: `(rows, cols)`, one game for the whole batch, or `(batch, rows, cols)`.
    opponent: `(batch, cols)` mixed strategies. precision: `(batch,)`.
    legal: optional boolean `(rows,)`; illegal rows are never played.
    """

    @ops.custom_gradient
    def quantal_response(payoff, opponent, precision):
        shared = len(payoff.shape) == 2
        spec = "nm,bm->bn" if shared else "bnm,bm->bn"
        utility = ops.einsum(spec, payoff, opponent)
        logits = precision[:, None] * utility
        if legal is not None:
            logits = ops.where(ops.convert_to_tensor(legal), logits, -1e30)
        policy = ops.softmax(logits, axis=-1)

        def grad(*args, upstream=None):
            upstream = _upstream(args, upstream)
            inner = ops.sum(upstream * policy, axis=-1, keepdims=True)
            d_logits = policy * (upstream - inner)
            d_utility = precision[:, None] * d_logits
            d_payoff = d_utility[:, :, None] * opponent[:, None, :]
            if shared:
                d_payoff = ops.mean(d_payoff, axis=0)
                d_opponent = ops.einsum("bn,nm->bm", d_utility, payoff)
            else:
                d_opponent = ops.einsum("bn,bnm->bm", d_utility, payoff)
            return d_payoff, d_opponent, ops.sum(d_logits * utility, axis=-1)

        return policy, grad

    return quantal_response


def pythagorean_wins(scored, allowed, games, exponent=1.83, dynamic=False):
    """Expected wins from runs scored/allowed (all of one shape); `dynamic` takes the run environment's exponent."""

    @ops.custom_gradient
    def expected_wins(scored, allowed, games):
        runs = scored + allowed
        gamma = ops.power(runs / games, PYTHAGENPAT) if dynamic else exponent
        log_odds = ops.log(scored) - ops.log(allowed)
        share = ops.sigmoid(gamma * log_odds)

        def grad(*args, upstream=None):
            upstream = _upstream(args, upstream)
            d_z = upstream * games * share * (1.0 - share)
            d_scored = d_z * gamma / scored
            d_allowed = -d_z * gamma / allowed
            d_games = upstream * share
            if dynamic:
                through_env = d_z * log_odds * PYTHAGENPAT * gamma / runs
                d_scored = d_scored + through_env
                d_allowed = d_allowed + through_env
            return d_scored, d_allowed, d_games

        return games * share, grad

    return expected_wins(scored, allowed, games)


@ops.custom_gradient
def bliss_viability(dose, emax, ec50, hill):
    """Viability under a drug combination, with Bliss independence.

    viability[b] = prod_k (1 - emax[k] * d^h / (ec50^h + d^h))

    Args:
        dose: `(batch, drugs)`, >= 0 (zero: drug absent).
        emax: `(drugs,)` in [0, 1], ec50: `(drugs,)` > 0.
        hill: `(drugs,)`, >= 1.

    Returns:
        `(batch,)`.
    """
    given = dose > 0
    safe = ops.where(given, dose, ops.ones_like(dose))
    log_rel = ops.where(given, ops.log(safe) - ops.log(ec50), ops.zeros_like(dose))
    z = hill * log_rel
    occ = ops.where(given, ops.sigmoid(z), ops.zeros_like(dose))
    free = ops.where(given, ops.sigmoid(-z), ops.ones_like(dose))
    survive = free + (1.0 - emax) * occ
    drugs = dose.shape[-1]
    alive = [survive[:, k] for k in range(drugs)]

    def grad(*args, upstream=None):
        upstream = _upstream(args, upstream)
        one = [ops.ones_like(upstream)]
        others = [_product(one + alive[:k] + alive[k + 1:]) for k in range(drugs)]
        d_survive = upstream[:, None] * ops.stack(others, axis=-1)
        d_occ = -emax * d_survive
        slope = occ * free
        # at d = 0 the curve starts flat, unless it is hyperbolic
        start = ops.where(hill > 1.0, ops.zeros_like(ec50), 1.0 / ec50)
        d_dose = d_occ * ops.where(given, hill * slope / safe, start)
        d_emax = ops.sum(-d_survive * occ, axis=0)
        d_ec50 = ops.sum(-d_occ * slope, axis=0) * hill / ec50
        d_hill = ops.sum(d_occ * slope * log_rel, axis=0)
        return d_dose, d_emax, d_ec50, d_hill

    return _product(alive), grad


class DrugPanel(keras.layers.Layer):
    """Learns potency and steepness of each drug of a panel."""

    def build(self, shape):
        n = shape[-1]
        self.top = self.add_weight(name="top", shape=(n,), initializer="zeros")
        self.log_ec50 = self.add_weight(name="log_ec50", shape=(n,), initializer="zeros")
        self.steep = self.add_weight(name="steep", shape=(n,), initializer="zeros")

    def call(self, dose):
        return bliss_viability(
            dose, ops.sigmoid(self.top), ops.exp(self.log_ec50), 1.0 + ops.softplus(self.steep)
        )
