"""The evaluation of the Synergy paper: hot spots that peers relieve by moving components."""
