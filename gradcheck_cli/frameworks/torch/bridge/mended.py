"""torchax as it is used here: what it lacks, or does in another way than torch, is mended file by file."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.frameworks.torch.bridge.convolutions import transpose_in_groups
from gradcheck_cli.frameworks.torch.bridge.detached import detach_as_told
from gradcheck_cli.frameworks.torch.bridge.fourier import keep_last_length
from gradcheck_cli.frameworks.torch.bridge.inner_ops import run_bodies
from gradcheck_cli.frameworks.torch.bridge.numpy_arrays import leave_torch
from gradcheck_cli.frameworks.torch.bridge.other_spellings import spell_anew
from gradcheck_cli.frameworks.torch.bridge.random import draw_natively
from gradcheck_cli.frameworks.torch.bridge.searches import search_as_told
from gradcheck_cli.frameworks.torch.bridge.special_functions import keep_whole
from gradcheck_cli.frameworks.torch.bridge.views import share_parts
from gradcheck_cli.frameworks.torch.bridge.whole_numbers import compute_whole_numbers


def mend(environment: Any, tensors: Any, views: Any) -> None:
    """Mend an environment of torchax, with its classes of tensors and of views of them; what comes last is asked first."""
    compute_whole_numbers(environment)
    draw_natively(environment)
    keep_last_length(environment)
    search_as_told(environment)
    transpose_in_groups(environment)
    keep_whole(environment)
    spell_anew(environment)
    leave_torch(environment, tensors, views)
    detach_as_told(tensors)
    run_bodies(environment, tensors, views)
    share_parts(environment, tensors, views)
