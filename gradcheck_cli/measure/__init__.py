"""Floats beside the truth: facts, no judgement."""
