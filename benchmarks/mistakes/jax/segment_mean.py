"""Mean of rows by segment, as used for graph pooling."""
from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_mean(x, seg, num_segments):
    """x: (n, d), seg: (n,) ints below num_segments. Returns (num_segments, d)."""
    return segment_mean_fwd(x, seg, num_segments)[0]


def segment_mean_fwd(x, seg, num_segments):
    total = jax.ops.segment_sum(x, seg, num_segments)
    count = jax.ops.segment_sum(jnp.ones(x.shape[0], x.dtype), seg, num_segments)
    count = jnp.maximum(count, 1.0)[:, None]
    return total / count, seg


def segment_mean_bwd(num_segments, res, dout):
    seg = res
    dx = dout[seg]
    return dx, None


segment_mean.defvjp(segment_mean_fwd, segment_mean_bwd)
