"""One folder a framework, behind the protocols of `subject`. Nothing here imports a framework."""
