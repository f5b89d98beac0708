"""`cgcheck sweep`: maps, what is done stays done, and what cannot be swept is said."""

from __future__ import annotations

import msgspec
import pytest

from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.contract.sweep_map import Map, Stretch, Swept
from gradcheck_cli.run.sweep import joined
from tests.conftest import cgcheck

SEED = "fixtures/seeds/custom_gradient.py:log1pexp"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def sweep(cache):
    return lambda *args: cgcheck("sweep", *args, env={"CGCHECK_CACHE_DIR": str(cache)})


def _map(text) -> Map:
    return msgspec.json.decode(text, type=Map)


def test_every_bfloat16_of_the_seed_with_each_interval(sweep):
    done = sweep(SEED, "--dtype", "bfloat16")
    assert done.code == 1
    assert "every bfloat16: 65,280 points · evidence: certified" in done.out
    assert "error[infinite]  89 ≤ x ≤" in done.out
    assert "note[zero]  -32 ≤ x ≤ -5.5625" in done.out


def test_an_interrupted_sweep_goes_on_to_the_same_map(sweep, cache):
    before = sweep(SEED, "--dtype", "float16", "--fresh", "--output-format", "json")
    file = max((cache / "sweeps").glob("*.json"), key=lambda p: p.stat().st_mtime)
    parts = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode(parts[:3]))
    after = sweep(SEED, "--dtype", "float16", "--output-format", "json")
    assert after.out == before.out
    assert _map(after.out).complete
    file.write_bytes(b"not a state at all")
    assert sweep(SEED, "--dtype", "float16", "--output-format", "json").out == before.out


def test_a_map_goes_to_files_and_to_the_screen_at_once(sweep, tmp_path):
    picture = tmp_path / "map.svg"
    formats = ("--output-format", f"svg:{picture}", "--output-format", "text")
    done = sweep(SEED, "--dtype", "float16", *formats)
    assert "every float16" in done.out
    assert picture.read_text().startswith("<svg")
    both = sweep(SEED, "--dtype", "float16", "--output-format", "svg", "--output-format", "text")
    assert (both.code, "only one format" in both.err) == (2, True)


def test_two_arguments_are_a_grid(sweep):
    done = sweep("jax.numpy:hypot", "--points", "81", "--output-format", "json")
    found = _map(done.out)
    assert (found.arguments, found.floats) == (["x1", "x2"], 81)
    assert found.results == ["value", "gradient of x1", "gradient of x2"]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("fixtures/seeds/custom_gradient.py:nothing", "there is no function `nothing`"),
        ("fixtures/seeds", "a sweep is of one function"),
        ("jax.nn:softmax", "it takes arrays, as in x[4 3]; a sweep is of plain numbers"),
        ("fixtures/right/scalar.py", "name one of"),
    ],
)
def test_what_cannot_be_swept_is_said(sweep, target, says):
    done = sweep(target, "--dtype", "bfloat16")
    assert (done.code, done.out) == (2, "")
    assert says in done.err


WRONG_BELOW_ZERO = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def root(x):
    return jnp.abs(x)


root.defvjp(lambda x: (root(x), x), lambda x, ct: (ct,))
"""


def test_a_declared_domain_is_kept(sweep, tmp_path):
    file = tmp_path / "below.py"
    file.write_text(WRONG_BELOW_ZERO)
    everywhere = sweep(f"{file}:root", "--dtype", "float16")
    assert everywhere.code == 1
    assert "error" in everywhere.out
    declared = "# cgcheck: expect(domain: x > 0)\n@jax.custom_vjp"
    file.write_text(WRONG_BELOW_ZERO.replace("@jax.custom_vjp", declared))
    done = sweep(f"{file}:root", "--dtype", "float16")
    assert done.code == 0
    assert "error" not in done.out


def test_an_unknown_argument_is_warned_of(sweep, tmp_path):
    file = tmp_path / "unknown.py"
    line = "# cgcheck: y=f32[]\n@jax.custom_vjp"
    file.write_text(WRONG_BELOW_ZERO.replace("@jax.custom_vjp", line))
    done = sweep(f"{file}:root", "--dtype", "float16", "--jobs", "2")
    assert done.err.count("warning:") == 1
    assert "the inputs speak of `y`; it takes x" in done.err


def _part(number, *stretches):
    return Swept(
        gradient="f", line=1, dtype="float32", arguments=["x"], results=["value"], part=number,
        parts=2, floats=10, evidence=Evidence.CERTIFIED, stretches=list(stretches), levels=[[24.0]],
    )  # fmt: skip


def _stretch(first, last, bits=None):
    return Stretch(
        result=0, kind="lost", first=[first], last=[last], count=1, within=True, bits=bits, at=[first]
    )  # fmt: skip


def test_neighbouring_stretches_are_joined_and_the_worst_is_kept():
    far = 1 << 22
    made = joined([_part(1, _stretch(20, 30, 3.0), _stretch(far, far)), _part(0, _stretch(0, 9, 5.0))], "f.py")  # fmt: skip
    assert [(s.first, s.last, s.count, s.bits) for s in made.stretches] == [
        ([0], [30], 2, 3.0),
        ([far], [far], 1, None),
    ]
    assert made.complete


def test_half_a_map_says_that_it_is_one():
    assert not joined([_part(0)], "f.py").complete
