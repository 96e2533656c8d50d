"""The real world: files, Flight, threads and processes.

Everything below this package decides; this one moves bytes and time. It backs
the pure halves of sources, logs and outputs with real files, sockets and
threads, and it is the only package that waits for anything.
"""
