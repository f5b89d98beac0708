"""One folder a framework, behind one seam. Nothing here imports a framework."""
