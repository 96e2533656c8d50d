"""Contracts between participants: chapters 6 and 7 of the thesis."""
