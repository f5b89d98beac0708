"""The environment that every worker starts with."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.workers.spawn import environment
from tests.conftest import check_json


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "KERAS_BACKEND"):
        monkeypatch.delenv(name, raising=False)


def test_on_the_cpu_jax_shows_two_devices_and_opens_no_window() -> None:
    env = environment("cpu")
    assert (env["JAX_PLATFORMS"], env["JAX_NUM_CPU_DEVICES"]) == ("cpu", "2")
    assert (env["MPLBACKEND"], env["CGCHECK_DEVICE"]) == ("Agg", "cpu")
    assert "KERAS_BACKEND" not in env


def test_on_a_gpu_jax_chooses_its_platform() -> None:
    env = environment("gpu")
    assert env["CGCHECK_DEVICE"] == "gpu"
    assert not {"JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES"} & set(env)


def test_beside_floats_of_torch_on_a_gpu_jax_stays_on_the_cpu() -> None:
    env = environment("gpu", frameworks=["torch"])
    assert (env["JAX_PLATFORMS"], env["CGCHECK_DEVICE"]) == ("cpu", "gpu")


def test_the_backend_is_that_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert environment("cpu", "tensorflow")["KERAS_BACKEND"] == "tensorflow"


@pytest.mark.parametrize(
    ("name", "value", "devices"),
    [("JAX_NUM_CPU_DEVICES", "8", "8"), ("XLA_FLAGS", "--xla_force_host_platform_device_count=4", None)],
)  # fmt: skip
def test_a_number_of_devices_that_the_user_chose_stays(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, devices: str | None
) -> None:
    monkeypatch.setenv(name, value)
    assert environment("cpu").get("JAX_NUM_CPU_DEVICES") == devices


KILLS = """
import os, signal
import jax

os.kill(os.getppid(), signal.SIGKILL)


@jax.custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))
"""


@pytest.mark.slow
def test_a_server_that_a_worker_kills_begins_again(project: Path) -> None:
    """Workers that were forked from it before may end their work; those that come later have a new one."""
    (project / "kills.py").write_text(KILLS)
    for name in ("one.py", "other.py"):
        (project / name).write_text(KILLS.replace("os.kill", "print"))
    run = check_json("kills.py", "one.py", "other.py", "--jobs", "1", cwd=project)
    verdicts = {g["path"]: g["verdict"] for g in run.report["gradients"]}
    assert run.code in (0, 1)
    assert (verdicts["one.py"], verdicts["other.py"]) == ("correct", "correct")
