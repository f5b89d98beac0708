"""How a script in PyTorch is written."""

from __future__ import annotations

from gradcheck_cli.subject.script_style import ScriptStyle

WRITING = ScriptStyle(
    imports=("import torch",),
    array='torch.tensor({values}, dtype=getattr(torch, "{dtype}"))',
    gradients=(
        "leaves = [leaf.requires_grad_() for leaf in leaves]",
        "outputs = call(*leaves)",
        "outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)",
        "outputs = [part for v in outputs for part in ([v.real, v.imag] if v.is_complex() else [v])]",
        "floats = [v for v in outputs if v.is_floating_point()]",
        "pulled = torch.autograd.grad(floats, leaves, cotangents, allow_unused=True)",
        "gradients = [np.zeros(x.shape) if g is None else g.double().numpy() for g, x in zip(pulled, leaves)]",
        "values = [v.detach().double().numpy() for v in floats]",
    ),
    pair="torch.complex({real}, {imag})",
    spellings={"torch.tanh": "torch.tanh", "torch.add": "torch.add"},
)
