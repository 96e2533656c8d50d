"""Peers that run applications together and relieve each other's hot spots, simulated."""
