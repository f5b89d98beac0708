import jax
import jax.numpy as jnp


class SquashedNormal:
    def __init__(self, mean, log_std):
        self.mean = mean
        self.log_std = jnp.clip(log_std, -5.0, 2.0)

    def sample_and_log_prob(self, key):
        noise = jax.random.normal(key, self.mean.shape)
        pre = self.mean + jnp.exp(self.log_std) * noise
        action = jnp.tanh(pre)
        base = -0.5 * noise ** 2 - self.log_std - 0.5 * jnp.log(2 * jnp.pi)
        jac = jnp.log(1.0 - action ** 2)
        return action, jnp.sum(base - jac, axis=-1)
