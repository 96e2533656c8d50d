"""What every layer stands on: errors, durations and tuple ids.

Nothing here reads a clock, a file or a random generator; nothing here imports
another package of Australis.
"""
