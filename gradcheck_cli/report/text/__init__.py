"""The report that people read: one verdict line a gradient, then each finding with its evidence."""
