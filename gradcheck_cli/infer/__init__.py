"""Inputs without configuration: signatures from annotations, texts, recorded calls and trial."""
