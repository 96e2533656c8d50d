"""Elasticity beyond the paper: large graphs, lost messages, other prices, shared nodes, rivals."""
