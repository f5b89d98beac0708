"""The names of rules, for code that speaks of one; their pages are in `rules/`.

Of the linter's rules no code speaks: a page is all that there is of one.
"""

from __future__ import annotations

from enum import StrEnum


class RuleName(StrEnum):
    """One member for each page that code speaks of, in the order of their codes."""

    GRADIENT_MISMATCH = "gradient-mismatch"
    NONLINEAR_COTANGENT = "nonlinear-cotangent"
    VALUE_MISMATCH = "value-mismatch"
    GRADIENT_STRUCTURE = "gradient-structure"
    APPROXIMATE_RULE = "approximate-rule"
    SAFE_AT_SINGULARITY = "safe-at-singularity"
    UNDECLARED_SURROGATE = "undeclared-surrogate"
    INCONCLUSIVE_GRADIENT = "inconclusive-gradient"
    TRUSTS_INNER_RULE = "trusts-inner-rule"
    CONTEXT_DEPENDENT_GRADIENT = "context-dependent-gradient"
    IMPURE_RULE = "impure-rule"
    WRONG_SECOND_DERIVATIVE = "wrong-second-derivative"
    TENSOR_KEPT_ON_CTX = "tensor-kept-on-ctx"
    BACKEND_DEPENDENT_RULE = "backend-dependent-rule"
    BROKEN_INTENT = "broken-intent"
    UNUSED_INTENT = "unused-intent"
    BLIND_INPUTS = "blind-inputs"
    INHERITED_FORMULA = "inherited-formula"
    RULE_RAISES = "rule-raises"
    UNDECLARED_DEVIATION = "undeclared-deviation"
    OUT_OF_BOUNDS = "out-of-bounds"
    UNDEFINED_NAME = "undefined-name"
    NON_FINITE_GRADIENT = "non-finite-gradient"
    NON_FINITE_VALUE = "non-finite-value"
    IMPRECISE_GRADIENT = "imprecise-gradient"
    IMPRECISE_VALUE = "imprecise-value"
    NARROWED_COMPUTATION = "narrowed-computation"
    REPAIRED_AUTODIFF = "repaired-autodiff"
    REDUNDANT_RULE = "redundant-rule"
    IMPORT_FAILED = "import-failed"
    SYNTAX_ERROR = "syntax-error"
    UNREADABLE_FILE = "unreadable-file"
    MODULE_EXITED = "module-exited"
    TIMED_OUT = "timed-out"
    WORKER_CRASHED = "worker-crashed"
    OUT_OF_MEMORY = "out-of-memory"
    NO_CUSTOM_GRADIENTS = "no-custom-gradients"
    MALFORMED_COMMENT = "malformed-comment"
    UNUSED_IGNORE = "unused-ignore"
    UNKNOWN_ARGUMENT = "unknown-argument"
    INTERNAL_ERROR = "internal-error"
