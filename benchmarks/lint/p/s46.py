import jax
import jax.numpy as jnp


def forward_pass(init_probs, trans, emit_probs):
    """emit_probs: [T, K] likelihood of every observation under each state."""

    def step(alpha, likelihood):
        alpha = (alpha @ trans) * likelihood
        return alpha, None

    alpha0 = init_probs * emit_probs[0]
    alpha, _ = jax.lax.scan(step, alpha0, emit_probs[1:])
    return alpha


def marginal_loglik(init_probs, trans, emit_probs):
    alpha = forward_pass(init_probs, trans, emit_probs)
    return jnp.log(jnp.sum(alpha))
