"""Colonies of ants on simulated servers and links."""
