"""Clues: what annotations, texts, bodies, names and calls elsewhere say of arguments. Nothing is run."""
