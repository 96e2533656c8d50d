"""Where tasks run: networks, queries, what placements cost, and ways to find one that know it all.

The ants (`protocols.ants`) find placements without anybody who knows it all; what is here judges
them, and competes with them.
"""
