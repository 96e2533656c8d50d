"""Ants on simulated servers and links (`simulation`), with runs drawn from seeds (`draw`) and judged
(`checked`).

`broken` has cells with one wrong decision each, and `placement_file` reads a network and its
queries from a file for `australis place`.
"""
