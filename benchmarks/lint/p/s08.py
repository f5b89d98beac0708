import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp


def forward_pass(init_logits, trans_logits, emit_logliks):
    """emit_logliks: [T, K] log likelihood of every observation under each state."""
    log_trans = jax.nn.log_softmax(trans_logits, axis=-1)

    def step(alpha, loglik):
        alpha = logsumexp(alpha[:, None] + log_trans, axis=0) + loglik
        return alpha, None

    alpha0 = jax.nn.log_softmax(init_logits) + emit_logliks[0]
    alpha, _ = jax.lax.scan(step, alpha0, emit_logliks[1:])
    return alpha


def marginal_loglik(init_logits, trans_logits, emit_logliks):
    alpha = forward_pass(init_logits, trans_logits, emit_logliks)
    return logsumexp(alpha)
