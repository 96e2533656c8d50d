"""Ants on simulated servers and links (`simulation`), with runs drawn from seeds and judged (`trial`).

`broken` has cells with one wrong decision each, and `placement_file` reads a network and its
queries from a file for `australis place`.
"""
