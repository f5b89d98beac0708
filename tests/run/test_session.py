"""Whatever user code does costs its own file one finding, and nobody else anything."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import (
    BYTECODE,
    FIXTURES,
    RIGHT,
    WRONG,
    Run,
    cgcheck,
    cgcheck_process,
    check_json,
    shared_project,
)

pytestmark = pytest.mark.slow  # each is a whole run

HOSTILE = FIXTURES / "hostile"


# Files that cannot be loaded, or whose gradients kill the process; each costs itself alone.
FILES = (
    "exits.py", "quits.py", "dies.py", "recurses.py", "missing_module.py", "syntax_error.py.txt",
    "latin1.py.txt", "hangs.py", "eats_memory.py",
)  # fmt: skip
DEADLY = ("dies_in_rule.py", "dies_at_a_point.py")


def hostile(names: Sequence[str]) -> Run:
    """Hostile files beside a wrong rule, in one run: the wrong rule must be found in any case."""

    def write(place: Path) -> None:
        for name in names:
            shutil.copy(HOSTILE / name, place / name.removesuffix(".txt"))
        (place / "zz_wrong.py").write_text(WRONG)
        (place / "pyproject.toml").write_text("[tool.cgcheck]\nmemory-limit = 1500\n")

    run = check_json(shared_project(f"beside-{names[0]}", write), "--max-time", "20")
    assert ("zz_wrong.py", "gradient-mismatch") in [(f["path"], f["rule"]) for f in run.findings()]
    return run


def about(run: Run, file: str) -> list[dict[str, Any]]:
    return [f for f in run.findings() if f["path"] == file]


@pytest.mark.parametrize(
    ("name", "rule", "said"),
    [
        ("exits.py", "module-exited", "sys.exit(3)"),
        ("quits.py", "worker-crashed", "exit code 0"),
        ("dies.py", "worker-crashed", "SIGSEGV"),
        ("recurses.py", "import-failed", "RecursionError"),
        ("missing_module.py", "import-failed", "pip install nowhere_to_be_found"),
        ("syntax_error.py", "syntax-error", "was never closed"),
        ("latin1.py", "unreadable-file", "encoding"),
        ("hangs.py", "timed-out", "20"),
        ("eats_memory.py", "out-of-memory", "more memory than allowed"),
    ],
)
def test_one_clear_finding_and_the_others_unharmed(name: str, rule: str, said: str) -> None:
    run = hostile(FILES)
    mine = about(run, name)
    assert [f["rule"] for f in mine] == [rule]
    assert said in mine[0]["message"]
    assert run.code == run.report["summary"]["exit_code"] == 2


def test_an_import_that_never_ends_is_told_at_its_statement() -> None:
    run = hostile(FILES)
    lines = {name: about(run, name)[0]["line"] for name in ("hangs.py", "eats_memory.py")}
    assert lines == {"hangs.py": 6, "eats_memory.py": 7}
    assert "if __name__ == '__main__':" in about(run, "hangs.py")[0]["help"]


def test_flood_of_prints_is_not_heard(project: Path) -> None:
    shutil.copy(HOSTILE / "prints.py", project)
    run = cgcheck_process("prints.py", "--output-format", "json", cwd=project)
    assert {f["severity"] for f in run.findings()} <= {"note"}
    assert "flood" not in run.out + run.err


def test_death_inside_a_rule_names_the_gradient() -> None:
    run = hostile(DEADLY)
    death = next(f for f in about(run, "dies_in_rule.py") if f["rule"] == "worker-crashed")
    assert death["gradient"] == "deadly"
    assert "SIGABRT" in death["message"]
    assert run.gradient("fine")["verdict"] == "correct"
    assert run.code == 1


def test_a_gradient_whose_kernel_aborts_at_some_shapes_is_judged_at_others(project: Path) -> None:
    shutil.copy(HOSTILE / "dies_at_shapes.py", project)
    run = check_json("dies_at_shapes.py", cwd=project)
    inputs = run.gradient("paired")["inputs"]
    assert all(x["shape"][-1] % 2 == 0 for x in inputs)
    assert run.gradient("paired")["verdict"] == "correct"
    assert run.code == 0


@pytest.mark.parametrize("name", ["empty.py", "plain.py"])
def test_file_without_custom_gradients_is_fine_and_says_so(project: Path, name: str) -> None:
    shutil.copy(HOSTILE / name, project / name)
    run = check_json(name, cwd=project)
    assert run.code == 0
    assert run.rules() == ["no-custom-gradients"]
    assert "No custom gradients in 1 file" in cgcheck(name, cwd=project).out


def test_five_files_import_jax_once(project: Path) -> None:
    for i in range(5):
        (project / f"m{i}.py").write_text(RIGHT)
    hooks = project / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(
        "import sys, pathlib\n"
        "class Spy:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'jax':\n"
        f"            with open({str(project / 'imports.log')!r}, 'a') as log: log.write('jax\\n')\n"
        "sys.meta_path.insert(0, Spy())\n"
    )
    run = cgcheck(
        *[f"m{i}.py" for i in range(5)], "--output-format", "json", cwd=project,
        env={"PYTHONPATH": str(hooks)},
    )  # fmt: skip
    assert run.report["summary"]["checked"] == 5
    assert (project / "imports.log").read_text().splitlines() == ["jax"]


def test_no_bytecode_is_written_beside_user_files(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(BYTECODE)
    package = project / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rules.py").write_text(RIGHT)
    (package / "user.py").write_text(
        "from .rules import triple\n" + WRONG.replace("triple", "mine")
    )
    run = check_json("pack", cwd=project)
    assert run.gradient("mine")["verdict"] == "wrong"
    assert [g["name"] for g in run.report["gradients"]] == ["triple", "mine"]
    assert not list(project.rglob("__pycache__"))


def test_same_input_same_bytes(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    shutil.copy(FIXTURES / "seeds" / "custom_vjp.py", project / "b.py")
    first = cgcheck_process(".", "--output-format", "json", cwd=project)
    second = check_json(".", "--no-cache", cwd=project)
    assert first.out == second.out
    assert "durations" not in first.report


def test_suppression_is_honoured_and_an_unused_one_told(project: Path) -> None:
    quiet = WRONG.replace(
        "def triple(x):", "def triple(x):  # cgcheck: ignore[gradient-mismatch] -- known"
    )
    (project / "a.py").write_text(quiet)
    run = check_json("a.py", cwd=project)
    assert "gradient-mismatch" not in run.rules()
    assert run.code == 0
    (project / "a.py").write_text(quiet.replace("2 * ct", "3 * ct"))
    assert "unused-ignore" in check_json("a.py", cwd=project).rules()


def test_select_ignore_and_fail_on(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    assert check_json("a.py", cwd=project).code == 1
    assert check_json("a.py", "--ignore", "gradient-mismatch", cwd=project).code == 0
    assert check_json("a.py", "--select", "stability", cwd=project).rules() == []
    assert check_json("a.py", "--fail-on", "never", cwd=project).code == 0


def test_spawned_workers_do_the_same_as_forked_ones(project: Path) -> None:
    """What macOS gets, tried here: a fresh interpreter for each worker."""
    (project / "a.py").write_text(WRONG)
    script = (
        "import platform, sys\n"
        "platform.system = lambda: 'Darwin'\n"
        "sys.argv = ['cgcheck', 'a.py', '--output-format', 'json']\n"
        "from gradcheck_cli.cli.app import main\n"
        "main()\n"
    )
    import json
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["gradients"][0]["verdict"] == "wrong"
    assert done.stdout == check_json("a.py", "--no-cache", cwd=project).out


def test_select_does_not_hide_what_could_not_be_checked(project: Path) -> None:
    shutil.copy(HOSTILE / "syntax_error.py.txt", project / "bad.py")
    run = check_json("bad.py", "--select", "gradient", cwd=project)
    assert (run.code, run.rules()) == (2, ["syntax-error"])
    assert "Nothing could be checked" in cgcheck("bad.py", cwd=project).out


def test_verdict_is_not_whitewashed_by_deselecting(project: Path) -> None:
    (project / "a.py").write_text(WRONG)
    assert check_json("a.py", "--select", "stability", cwd=project).gradient("triple")["verdict"] == "wrong"  # fmt: skip
    quiet = WRONG.replace("(x):", "(x):  # cgcheck: ignore[gradient-mismatch] -- meant")
    (project / "a.py").write_text(quiet)
    assert check_json("a.py", cwd=project).gradient("triple")["verdict"] == "intended"


def test_gradients_behind_a_death_are_checked(project: Path) -> None:
    source = (HOSTILE / "dies_in_rule.py").read_text() + RIGHT.replace("import jax\n", "")
    (project / "a.py").write_text(source)
    run = check_json("a.py", cwd=project)
    assert {item["gradient"] for item in run.report["not_covered"]} == {"deadly"}
    assert run.gradient("triple")["status"] == "checked"


def test_closed_standard_output_is_no_crash(project: Path) -> None:
    import subprocess

    (project / "a.py").write_text(RIGHT)
    command = f"exec {sys.executable} -m gradcheck_cli a.py >&-"
    done = subprocess.run(["bash", "-c", command], cwd=project, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


def test_guessed_arguments_are_told_with_the_witness(project: Path) -> None:
    (project / "a.py").write_text(
        "import jax\nfrom functools import partial\n\n\n"
        "@partial(jax.custom_vjp, nondiff_argnums=(1,))\ndef scaled(x, lam):\n    return 2 * x\n\n\n"
        "scaled.defvjp(lambda x, lam: (2 * x, None), lambda lam, _, ct: (-lam * ct,))\n"
    )
    assert "lam = 0.5" in cgcheck("a.py", cwd=project).out


ONCE = """
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

MARK = Path(__file__).with_name("crashed")


def told(x):
    if np.any(x > 50) and not MARK.exists():
        MARK.touch()
        os.abort()
    return np.sin(x)


@jax.custom_vjp
def fragile(x):
    return jax.pure_callback(told, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")


fragile.defvjp(lambda x: (fragile(x), x), lambda x, g: (g * jnp.cos(x),))
"""


def test_a_crash_that_does_not_come_again_is_no_finding(project: Path) -> None:
    (project / "once.py").write_text(ONCE)
    run = check_json("once.py", cwd=project)
    assert (project / "crashed").exists()
    assert run.gradient("fragile")["verdict"] == "correct"
    assert "worker-crashed" not in [finding["rule"] for finding in run.findings()]


def test_death_at_a_point_names_the_point_and_the_rest_is_checked() -> None:
    run = hostile(DEADLY)
    death = next(f for f in about(run, "dies_at_a_point.py") if f["rule"] == "worker-crashed")
    assert death["gradient"] == "fatal"
    assert death["witness"]["inputs"][0]["value"] == 100.0
    assert death["reproduce"] == 'cgcheck dies_at_a_point.py:fatal --at "x=100.0"'
    assert run.gradient("after")["verdict"] == "correct"
    assert run.code == 1


@pytest.mark.parametrize(
    ("at", "said"), [("y=3", "no argument `y`"), ("x=[1, 2, 3, 4, 5]", "has 5 numbers")]
)
def test_a_point_that_fits_nothing_is_told(project: Path, at: str, said: str) -> None:
    (project / "a.py").write_text(RIGHT)
    run = check_json("a.py", "--at", at, cwd=project)
    assert run.code == 2
    told = [f["message"] for f in run.findings() if f["rule"] == "unknown-argument"]
    assert len(told) == 1
    assert said.replace("no argument", "no gradient has an argument") in told[0]


def test_asked_for_arrays_come_first(project: Path) -> None:
    (project / "a.py").write_text(
        WRONG.replace("def triple(x):", "def triple(x):\n    assert x.ndim")
    )
    run = check_json("a.py", "--at", "x=[1, 2, 4]", cwd=project)
    (wrong,) = (f for f in run.findings() if f["rule"] == "gradient-mismatch")
    assert wrong["witness"]["inputs"][0]["value"] == [1.0, 2.0, 4.0]
    assert '--at "x=[1, 2, 4]"' in wrong["reproduce"]


# What a shell starts with `&` ignores interrupts, and so does all that it starts.
_HEEDING = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "runpy.run_module('gradcheck_cli', run_name='__main__')"
)


_HANGS = """
import pathlib
import jax

@jax.custom_jvp
def twice(x):
    return 2 * x

@twice.defjvp
def twice_jvp(primals, tangents):
    return twice(*primals), 2 * tangents[0]

@jax.custom_jvp
def hangs(x):
    pathlib.Path({there!r}).touch()
    while True:
        pass

hangs.defjvp(lambda primals, tangents: (hangs(*primals), tangents[0]))
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_says_so_and_keeps_what_is_done(project: Path, sent: signal.Signals) -> None:
    there = project / "hanging"
    (project / "hangs.py").write_text(_HANGS.replace("{there!r}", repr(str(there))))
    process = subprocess.Popen(
        [sys.executable, "-c", _HEEDING, "hangs.py", "--output-format", "json"],
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not there.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert there.exists()
    process.send_signal(sent)
    out, err = process.communicate(timeout=20)
    assert "interrupted" in err
    assert process.returncode == 130
    report = json.loads(out)
    assert report["summary"]["exit_code"] == 130
    assert [(g["name"], g["verdict"]) for g in report["gradients"]] == [("twice", "correct")]
    (left,) = report["not_covered"]
    assert (left["gradient"], left["reason"]) == (
        "hangs",
        "the run was interrupted before it was done",
    )


SOURCES = {
    "torch": "class A(torch.autograd.Function):\n    pass\n",
    "tensorflow": "@tensorflow.custom_gradient\ndef f(x):\n    return x, lambda dy: dy\n",
    "keras": "@keras.ops.custom_gradient\ndef f(x):\n    return x, lambda dy: dy\n",
}


def test_a_framework_that_is_not_there_is_named(project: Path) -> None:
    """Files for frameworks that this environment lacks: one finding each, with what to install."""
    for framework, source in SOURCES.items():
        shadow = project / "shadow" / framework
        shadow.mkdir(parents=True)
        (shadow / "__init__.py").write_text(
            f"raise ModuleNotFoundError('it is not there', name={framework!r})\n"
        )
        (project / f"of_{framework}.py").write_text(f"import {framework}\n\n\n{source}")
    files = [f"of_{framework}.py" for framework in SOURCES]
    run = check_json(*files, cwd=project, env={"PYTHONPATH": str(project / "shadow")})
    assert {f["path"]: f["rule"] for f in run.findings()} == dict.fromkeys(files, "import-failed")
    assert len(run.findings()) == len(files)
    for found, framework in zip(run.findings(), sorted(SOURCES), strict=True):
        assert f"pip install {framework}" in found["message"]
    assert run.code == 2


def test_a_framework_that_is_broken_costs_its_own_files(project: Path) -> None:
    shadow = project / "shadow" / "torch"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("this is no Python\n")
    (project / "a.py").write_text("import torch\n\n\nclass A(torch.autograd.Function):\n    pass\n")
    (project / "b.py").write_text(RIGHT)
    run = check_json("a.py", "b.py", cwd=project, env={"PYTHONPATH": str(project / "shadow")})
    assert run.rules().count("import-failed") == 1
    assert run.gradient("triple")["verdict"] == "correct"


def test_a_file_is_told_when_it_is_done_and_others_are_not(project: Path) -> None:
    """The second one waits for a word that comes when the first has been read."""
    go = project / "go"
    wait = f"import pathlib\nimport time\n\nwhile not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.1)\n\n"
    (project / "a.py").write_text(WRONG)
    (project / "b.py").write_text(wait + RIGHT)
    command = [sys.executable, "-m", "gradcheck_cli", "a.py", "b.py", "--output-format", "concise"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("a.py:6:")
        assert process.poll() is None
        go.touch()
        rest = process.stdout.read()
    assert process.returncode == 1
    assert rest == "2 of 2 gradients checked in 2 files: 1 error, 0 warnings, 1 note.\n"
