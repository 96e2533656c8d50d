"""Chains of replicated nodes: figures 5-10 to 5-15 of the thesis."""
