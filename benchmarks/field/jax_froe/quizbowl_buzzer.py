"""When to buzz: training a quizbowl player that hears a question word by word.

Three pieces: the expected payoff of a stopping policy over one question, the return over the tossups
of a packet (cut into training chunks), and a relaxed choice of k practice categories.
"""
import jax
import jax.numpy as jnp

EPS = 1e-6


@jax.custom_vjp
def expected_buzz(hazard_logits, payoff, lengths):
    """Mean expected payoff over a batch of questions.

    At word t the player buzzes with probability sigmoid(hazard_logits[:, t]) if nobody has so far and then
    earns payoff[:, t].  At the last word of the question (lengths[i] - 1) the player must answer, whatever
    the logit says; what stands beyond it is padding.

    hazard_logits, payoff: [batch, words]; lengths: int [batch], each at least 1.
    """
    return _buzz_fwd(hazard_logits, payoff, lengths)[0]


def _hazard(hazard_logits, lengths):
    t = jnp.arange(hazard_logits.shape[1])[None]
    last = lengths[:, None] - 1
    h = jnp.where(t < last, jax.nn.sigmoid(hazard_logits), jnp.where(t == last, 1.0, 0.0))
    return h, t < last, t <= last


def _buzz_fwd(hazard_logits, payoff, lengths):
    h, free, real = _hazard(hazard_logits, lengths)
    pay = jnp.where(real, payoff, 0.0)

    def word(later, inp):
        h_t, r_t = inp
        now = h_t * r_t + (1.0 - h_t) * later
        return now, later

    v0, later = jax.lax.scan(word, jnp.zeros_like(pay[:, 0]), (h.T, pay.T), reverse=True)
    return v0.mean(), (h, free, pay, later.T)


def _buzz_bwd(res, g):
    h, free, pay, later = res
    alive = jnp.cumprod(1.0 - h, axis=1)
    alive = jnp.concatenate([jnp.ones_like(alive[:, :1]), alive[:, :-1]], axis=1)
    g = g / h.shape[0]
    d_logit = jnp.where(free, g * alive * (pay - later) * h * (1.0 - h), 0.0)
    return d_logit, g * alive * h, None


expected_buzz.defvjp(_buzz_fwd, _buzz_bwd)


def make_game_returns(gamma=0.99, lam=0.9):
    """Lambda returns over a chunk of consecutive tossups.

    The returned function takes time-major arrays [tossups, players]: the points won, the critic's value of
    the state *after* each tossup, and a bool `over` that marks the last tossup of a game. A chunk ends
    where the buffer ends, mostly in the middle of a game, and is closed with the critic's last value.
    """

    @jax.custom_vjp
    def game_returns(points, value_after, over):
        def back(ahead, inp):
            r, v, c = inp
            ret = r + gamma * c * ((1.0 - lam) * v + lam * ahead)
            return ret, ret

        go_on = 1.0 - over.astype(points.dtype)
        return jax.lax.scan(back, value_after[-1], (points, value_after, go_on), reverse=True)[1]

    def fwd(points, value_after, over):
        return game_returns(points, value_after, over), over

    def bwd(over, g):
        go_on = 1.0 - over.astype(g.dtype)

        def ahead(carry, inp):
            g_t, c_t = inp
            a = g_t + carry
            return gamma * lam * c_t * a, (a, gamma * (1.0 - lam) * c_t * a)

        _, (d_points, d_value) = jax.lax.scan(ahead, jnp.zeros_like(g[0]), (g, go_on))
        return d_points, d_value, None

    game_returns.defvjp(fwd, bwd)
    return game_returns


def make_relaxed_picks(k: int):
    """k rounds of softmax without replacement; rows of the answer sum to k.

    logits may have any leading axes, the categories are last. Add Gumbel noise to the logits outside
    for samples. temperature is a positive scalar.
    """

    @jax.custom_gradient
    def relaxed_picks(logits, temperature):
        a = logits
        rounds = []
        picked = jnp.zeros_like(logits)
        for _ in range(k):
            p = jax.nn.softmax(a / temperature, axis=-1)
            rounds.append((a, p))
            picked = picked + p
            a = a + jnp.log(jnp.maximum(1.0 - p, EPS))

        def pull(g):
            ga = jnp.zeros_like(g)
            g_temp = jnp.zeros((), g.dtype)
            for a_j, p_j in reversed(rounds):
                open_ = 1.0 - p_j > EPS
                gp = g - jnp.where(open_, ga / jnp.where(open_, 1.0 - p_j, 1.0), 0.0)
                gs = p_j * (gp - jnp.sum(gp * p_j, axis=-1, keepdims=True))
                g_temp = g_temp - jnp.sum(gs * a_j) / temperature**2
                ga = ga + gs / temperature
            return ga, g_temp.astype(jnp.asarray(temperature).dtype)

        return picked, pull

    return relaxed_picks


class PracticePlanner:
    """Scores categories by how much the player gains from them and picks k softly."""

    def __init__(self, k, temperature=0.5):
        self.pick = make_relaxed_picks(k)
        self.temperature = temperature

    def __call__(self, key, gains):
        return self.pick(gains + jax.random.gumbel(key, gains.shape), jnp.asarray(self.temperature, gains.dtype))
