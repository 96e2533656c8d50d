"""A node of a cluster: one process that drives the machines of `protocols` for real.

    process   opens everything that the cluster file places here, and supplies the ports of all hosts
    driver    one thread that hands events to the machines and carries out their effects
    router    where each message goes, what may come in, and injected faults of the network
    wire      envelopes as bytes; `wire_dpc` is the family of messages of DPC
    links     one outgoing connection for each other node, with bounded memory
    server    the node's one port: messages, snapshots and questions
    mailbox   what waits for a client to fetch it; `guests` for those that no file names
    feed      a source's proxy, and what its machine hears of it
    engine    what a replica's host asks of its lanes (`node.ports.EnginePort`)
    lanes     what an engine does; `reference_lanes` without Spark, `spark_lanes` with it
    held      what a lane may read: buckets in memory, and in logs of the same node
    sinks     a sink: the application behind a client proxy
    exchange  checkpoints between replicas; `excerpt` is the end of a log that goes with them
    entries   ids for what is handled, so that causes can be told
    events    what happened, as lines of JSON for people and their tools
    trace     everything that is handled, as lines of JSON, where the cluster file says so
    status    how it is doing; `metrics` is the same for Prometheus

Nothing here decides anything: which bucket is processed when, what is sent to which machine and
what is forgotten is said by the machines. `settings.NodeSettings` is what differs between a node of
a cluster and `australis run`.
"""
