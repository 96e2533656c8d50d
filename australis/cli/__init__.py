"""The command line: commands, progress and exit codes.

Each command has a module, which is imported when the command is used (`lazy`). Exit codes are 0
(done), 1 (going on would break a promise, or something is not as expected) and 2 (a mistake in the
input, told in one sentence with its file, line and name).
"""
