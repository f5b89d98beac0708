"""How a script in JAX is written."""

from __future__ import annotations

from gradcheck_cli.subject.script_style import ScriptStyle

WRITING = ScriptStyle(
    imports=("import jax", "import jax.numpy as jnp"),
    array='jnp.asarray(np.array({values}), "{dtype}")',
    gradients=(
        "def reals(*leaves):",
        "    flat = jax.tree.leaves(call(*leaves))",
        "    return [part for v in flat for part in ([v.real, v.imag] if jnp.iscomplexobj(v) else [v])]",
        "outputs, pullback = jax.vjp(reals, *leaves)",
        "flat, tree = jax.tree.flatten(outputs)",
        "supply = iter(cotangents)",
        "floats = [jnp.issubdtype(v.dtype, jnp.inexact) for v in flat]",
        "given = [next(supply) if f else np.zeros(v.shape, jax.dtypes.float0) for v, f in zip(flat, floats)]",
        "gradients = pullback(jax.tree.unflatten(tree, given))",
        "values = [v for v, f in zip(flat, floats) if f]",
    ),
    pair="jax.lax.complex({real}, {imag})",
    jitted="jax.jit(run)",
    spellings={"key(0)": "jax.random.key(0)", "jnp.tanh": "jnp.tanh", "jnp.add": "jnp.add"},
)
