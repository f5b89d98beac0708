import jax
import jax.numpy as jnp


def blend_energy(phi, chi=0.5):
    """Flory-Huggins energy of volume fractions phi (cells, species), many of them empty."""
    present = phi > 0
    inner = jnp.where(present, phi, 1.0)
    entropy = jnp.where(present, inner * jnp.log(inner), 0.0)
    contact = chi * phi[..., 0] * phi[..., 1]
    return jnp.sum(entropy) + jnp.sum(contact)


exchange_potential = jax.grad(blend_energy)
