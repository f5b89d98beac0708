import equinox as eqx
import jax
import jax.numpy as jnp


class PowerPool(eqx.Module):
    p: float = 3.0
    floor: float = 1e-4

    def __call__(self, x):
        x = jnp.maximum(jnp.abs(x), self.floor)
        m = jnp.mean(x ** self.p, axis=(-2, -1))
        return m ** (1.0 / self.p)


def descriptor_loss(fmap, target, pool=PowerPool()):
    return jnp.sum((pool(fmap) - target) ** 2)


descriptor_grad = jax.grad(descriptor_loss)
