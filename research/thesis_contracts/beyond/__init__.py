"""Contracts beyond the papers: the centralized optimum, auctions, lost messages, two simulators."""
