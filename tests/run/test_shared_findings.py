"""What several backends find alike is one finding of the report, and none is lost."""

from __future__ import annotations

from pathlib import Path

from gradcheck_cli.contract.report import Gradient, Status, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.tasks import TargetReader

BACKENDS = ("jax", "tensorflow", "torch")
COUNT = 50


def on(backend: str, number: int) -> Checked:
    """A gradient of Keras on one backend, with notes."""
    name = f"rule_{number}"
    gradient = Gradient(
        id=f"{name}-{backend}", name=name, qualname=name, path="model.py", line=number,
        framework="keras", kind="custom_gradient", backend=backend, device="cpu",
        dtypes=["float32"], status=Status.CHECKED, verdict=Verdict.CORRECT,
    )  # fmt: skip
    rule = find(RuleName.REDUNDANT_RULE)
    texts = messages(backend, number)
    return Checked(gradient=gradient, findings=[rule.finding("model.py", number, t) for t in texts])


def messages(backend: str, number: int) -> list[str]:
    """More on some backends than on others, and on some nothing."""
    return [f"wrong {number} {k}" for k in range((number + BACKENDS.index(backend)) % 4)]


def test_each_finding_is_there_once_for_all_of_its_backends(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("@ops.custom_gradient\ndef rule(x): ...\n")
    file = TargetReader(Settings(), tmp_path).read(Target(tmp_path / "model.py", None, ()))
    file.gradients += [on(backend, n) for n in range(1, COUNT + 1) for backend in BACKENDS]
    report = assemble([file], Settings())
    each = [[report.findings[n].message for n in g.findings] for g in report.gradients]
    assert each == [messages(b, n) for n in range(1, COUNT + 1) for b in BACKENDS]
    everything = [f.message for f in report.findings]
    assert len(set(everything)) == len(everything)
