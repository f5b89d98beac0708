"""Only what is measured runs on the GPU: here on a second simulated device, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

from tests.conftest import ROOT

SCRIPT = """
    import json
    import jax, jax.numpy as jnp, numpy as np
    from gradcheck_cli.frameworks.jax import devices
    from gradcheck_cli.frameworks.jax.setup import work_on_the_cpu
    from gradcheck_cli.inputs.signature import Leaf, Signature
    from tests.traced import gradient_of, ruled

    work_on_the_cpu()
    cpu, other = jax.devices()
    devices.accelerator = lambda: other

    def backward(held, g):
        return (2 * held[0] * g,)

    subject = gradient_of(ruled(lambda x: x * x, backward)).fit(Signature((("x", Leaf("x", (2,), "test")),)), "float32")
    subject.traces()
    numbers = [np.array([[1.0, 2.0]])]
    floats = subject.run(numbers, numbers)
    placed = {str(d) for c in subject._compiled.values() for s in jax.tree.leaves(c.output_shardings) for d in s.device_set}
    print(json.dumps({
        "measured": sorted(placed) == [str(other)],
        "beside": jnp.zeros(3).devices() == {cpu},
        "gradients": next(iter(floats.values())).custom[0].tolist(),
    }))
"""


def test_compiled_floats_are_those_of_the_device_and_all_else_the_cpus() -> None:
    env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2", "CGCHECK_DEVICE": "gpu"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        cwd=ROOT, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"measured": True, "beside": True, "gradients": [[2.0, 8.0]]}
