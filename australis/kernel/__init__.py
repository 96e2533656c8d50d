"""What every layer stands on: machines and their effects, chance, traces, errors, ids.

Nothing here reads a clock, a file or a global random generator; nothing here imports
another package of Australis.
"""
