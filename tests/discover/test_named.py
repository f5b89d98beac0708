"""A name leads to what is made in it, wherever it is defined."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import check_json

MAKERS = """
import jax
import jax.numpy as jnp


def averaged(argmax_fun, num_samples):
    @jax.custom_jvp
    def forward(x):
        moved = x + 0.1 * jnp.arange(num_samples)[:, None]
        return jnp.mean(jax.vmap(argmax_fun)(moved), axis=0)

    forward.defjvps(lambda t, out, x: 2 * jax.jvp(forward.fun, (x,), (t,))[1])
    return forward


def ruined(connection):
    raise AssertionError("nobody asked for this one")

    @jax.custom_jvp
    def never(x):
        return x
"""


def write(folder: Path) -> None:
    # A neighbour of a framework by name: `jax` is a prefix of it.
    package = folder / "jaxlike"
    package.mkdir()
    (package / "__init__.py").write_text("from jaxlike._src import averaged, ruined\n")
    (package / "_src.py").write_text(MAKERS)


def test_a_factory_that_a_package_shows_is_called_where_it_is_defined(tmp_path: Path) -> None:
    write(tmp_path)
    run = check_json("jaxlike:averaged", cwd=tmp_path)
    (gradient,) = run.report["gradients"]
    assert gradient["qualname"] == "averaged.<locals>.forward"
    assert (gradient["path"], gradient["verdict"]) == ("jaxlike/_src.py", "wrong")
    assert all(f["reproduce"].startswith("cgcheck jaxlike:averaged") for f in run.findings())


def test_what_is_not_named_is_not_called(tmp_path: Path) -> None:
    write(tmp_path)
    report = check_json("jaxlike/_src.py:averaged", cwd=tmp_path).report
    assert (report["summary"]["checked"], report["not_covered"]) == (1, [])
