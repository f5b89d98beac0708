"""Primitives without a meaning over the reals, each with its reason from a closed list."""

from __future__ import annotations

BITS = "it looks at the bits of a float"
OUTSIDE = "it runs code outside JAX"
KERNEL = "it is a kernel of its own"
DEVICES = "it talks to other devices"
MEMORY = "it reads or writes mutable memory"
DRAWS = "its draws depend on a float"
INTERNAL = "it belongs to JAX's own machinery and reaches no traced program"

REASONS: dict[str, str] = {
    **dict.fromkeys(("bitcast_convert_type", "nextafter"), BITS),
    **dict.fromkeys(
        ("call_exported", "debug_callback", "debug_print", "ffi_call", "io_callback", "mhlo_apply", "pure_callback"),
        OUTSIDE,
    ),
    **dict.fromkeys(
        (
            "core_map", "cudnn_fusion", "custom_partitioning", "delay", "dot_product_attention_bwd",
            "dot_product_attention_bwd_wrapper", "dot_product_attention_fp8_bwd",
            "dot_product_attention_fp8_bwd_wrapper", "dot_product_attention_fp8_fwd",
            "dot_product_attention_fp8_fwd_wrapper", "dot_product_attention_fwd",
            "dot_product_attention_fwd_wrapper", "masked_load", "masked_swap", "mpmd_map", "multiple_of",
            "num_programs", "pallas_call", "program_id", "reciprocal", "run_scoped", "scaled_dot", "scaled_matmul",
            "scaled_matmul_wrapper",
        ),
        KERNEL,
    ),
    **dict.fromkeys(
        (
            "all_gather", "all_gather_done", "all_gather_invariant", "all_gather_reduced",
            "all_gather_reduced_start", "all_gather_start", "all_to_all", "all_to_all_done",
            "all_to_all_start", "axis_index", "pbroadcast_done", "pbroadcast_start", "pmax", "pmin",
            "ppermute", "ppermute_done", "ppermute_start", "precv", "preduced", "psend", "psum",
            "psum_done", "psum_invariant", "psum_invariant_start", "psum_start", "ragged_all_to_all",
            "reduce_scatter", "reduce_scatter_done", "reduce_scatter_start", "semaphore_read",
            "semaphore_signal", "semaphore_wait", "shard_map", "unreduced_pmax", "unreduced_pmin", "unreduced_psum", "unreduced_psum_start",
            "unreduced_reduce_scatter", "unreduced_reduce_scatter_start",
        ),
        DEVICES,
    ),
    **dict.fromkeys(
        (
            "accum_grad_in_ref", "addupdate", "box_get", "box_set", "empty_ref", "free_ref", "freeze",
            "get", "get_global", "log_extend", "log_read", "new_box", "new_log", "new_ref", "pin",
            "run_state", "swap", "unpin",
        ),
        MEMORY,
    ),
    **dict.fromkeys(("random_gamma", "rng_uniform"), DRAWS),
    **dict.fromkeys(
        (
            "after_all", "broadcast_to", "call_hi_primitive", "call_hi_primitive_linearized", "check",
            "create_linear", "create_token", "custom_jvp_call_jaxpr", "custom_lin", "dim_as_value", "dimension_size",
            "from_edtype", "global_array_to_host_local_array",
            "host_local_array_to_global_array", "inspect_sharding", "jaxpr_call", "linear_call", "remat_opt", "select_and_scatter",
            "shape_assertion", "stage", "to_edtype", "unreachable", "zeros_like",
        ),
        INTERNAL,
    ),
}  # fmt: skip

# Of integers and keys alone: they run natively, exactly (SEMANTICS B3).
NATIVE = frozenset(
    {
        "clz", "iota_2x32_shape", "lu_pivots_to_permutation", "mulhi", "philox2x32", "philox4x32",
        "platform_index", "population_count", "random_bits", "random_clone", "random_fold_in",
        "random_seed", "random_split", "random_unwrap", "random_wrap", "reduce_xor",
        "rng_bit_generator", "shift_left", "shift_right_arithmetic", "shift_right_logical",
        "threefry2x32", "threefry4x32",
    }
)  # fmt: skip
