"""Programs in plain float64 arrays of numpy: no bounds, no compiler, whole batches at once."""
