"""Streams as data: schemas, buckets, the stable log, and the pure halves of SUnion and SOutput.

A stream is a named, typed, append-only sequence of tuples, held in Arrow record
batches. Its *stable log* is the same at every replica, byte for byte: tuples are
grouped into buckets by `_stime`, put into one canonical order within the bucket,
and numbered by bucket and rank. This package knows how; it touches no clock and
no file. What is durable goes through a `Disk`, which the runtime backs by
files and the simulated world by memory that can crash.
"""
