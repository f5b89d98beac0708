"""torchax as it is used here: what it lacks, or does in another way than torch, is mended a file at a time.

`mended` collects the mends. `native_ops` has the means: torch's own numbers while JAX traces, and how an operation is
replaced. `numpy_arrays`, `random`, `whole_numbers` and `traced_device` are about what a traced number is; `views` and
`detached` about memory and history that tensors share; `inner_ops` about custom ops that a traced body calls;
`other_spellings`, `convolutions` and `fourier` about single operations.
"""
