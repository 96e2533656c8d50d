"""A node of a cluster: one process that drives the machines of `protocols` for real.

    process   reads the cluster file, opens everything, and runs until it is told to stop
    driver    one thread that hands events to the machines and carries out their effects
    wire      messages as bytes
    links     one outgoing connection for each other node, with bounded memory
    mailbox   what waits for a client to fetch it; `guests` for those whom no file names
    roles     who may say what to whom
    server    the node's one port: messages, snapshots, questions, and Spark's processes
    hosts     what replicas, sources and clients need beyond messages and timers
    lanes     what a replica's host asks of an engine; `reference_lanes` without Spark
    excerpt   the end of a log, for a replica that lost its own
    entries   ids for what is handled, so that causes can be told
    events    what happened, as lines of JSON for people and their tools
    trace     everything that is handled, as lines of JSON, where it is asked for
    status    how it is doing; `metrics` is the same for Prometheus

Nothing here decides anything: which bucket is processed when, what is sent to whom and
what is forgotten is said by the machines.
"""
