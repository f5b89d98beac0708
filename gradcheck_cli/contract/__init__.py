"""Structs and errors that every room may know; nothing of ours is imported."""
