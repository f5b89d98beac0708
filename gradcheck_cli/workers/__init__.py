"""Processes: how workers are started, spoken with and watched."""
