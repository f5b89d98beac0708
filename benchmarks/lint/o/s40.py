import jax.numpy as jnp


def numeric_grad(loss_fn, theta, h=1e-8):
    """Central differences, one coordinate at a time."""
    theta = jnp.asarray(theta, dtype=jnp.float32)
    out = []
    for i in range(theta.shape[0]):
        up = loss_fn(theta.at[i].add(h))
        down = loss_fn(theta.at[i].add(-h))
        out.append((up - down) / (2 * h))
    return jnp.stack(out)


def check_grads(loss_fn, grad_fn, theta, tol=1e-2):
    diff = jnp.abs(numeric_grad(loss_fn, theta) - grad_fn(theta))
    print(f"max deviation: {float(diff.max()):.3e}")
    return bool(diff.max() < tol)
