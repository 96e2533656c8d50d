"""The contract mechanism over arrays: hundreds of thousands of participants with equal tasks.

The machines of `protocols.contracts` are the protocol; the arrays repeat their decisions for
participants with equal tasks in compiled code, and `machines` builds the same federation of
machines so that both can be compared.
"""
