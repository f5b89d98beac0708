"""Triton kernels without a GPU: run by Triton's interpreter, and traced like everything else.

`arrival` meets Triton when user code imports it and has `interpreter` close the gaps of its interpreter: `numbers`
(numpy, or JAX while a function is traced), `memory` (tensors as a kernel sees them), `launch` (one call of a kernel),
`padding`, `reductions`, `libdevice` and `gpu_questions`. `unwritten` and `launched` tell what a call left undone and what
it launched; `compiled` runs what was traced at many points.
"""
