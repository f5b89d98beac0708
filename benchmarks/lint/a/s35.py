import jax
import jax.numpy as jnp


def mixing_energy(phi, chi=0.5):
    """Flory-Huggins energy of volume fractions phi (cells, species), many of them empty."""
    entropy = jnp.where(phi > 0, phi * jnp.log(phi), 0.0)
    contact = chi * phi[..., 0] * phi[..., 1]
    return jnp.sum(entropy) + jnp.sum(contact)


chemical_potential = jax.grad(mixing_energy)
