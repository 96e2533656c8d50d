"""Ants beyond the paper: large queries on real networks, 5,000 servers, failures while ants are
under way, lost ants, and other settings.
"""
