"""What keeps the memory of a node's processes steady."""

from __future__ import annotations

import ctypes

import pyarrow as pa

_ARENAS = -8
"""glibc's name for how many pools of memory threads may share,"""
_TRIM = -1
"""and for how much may be free at the end of one before it is given back."""


def give_back() -> None:
    """Let this process give back what it has freed, instead of keeping pools for each thread.

    Called before there are threads. Where the C library knows no such thing nothing happens.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENAS, 2)
        mallopt(_TRIM, 1 << 20)


def spark_settings(memory_mb: int) -> dict[str, str]:
    """What keeps a node's JVM from growing by more than about a megabyte a minute once it is warm.

    Its heap may be used from the beginning. About one class is compiled for every micro-batch, and
    they are given up only in a cycle of the garbage collector for the old generation, which a heap
    that stays small does not need for hours: so there is one every few minutes, beside the work.
    Machine code grew to 95 MB in eleven minutes without a limit. A state's newest rows are kept by
    RocksDB until they are 64 MB if nothing else is said.
    """
    return {
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.defaultJavaOptions": (
            f"-Xms{memory_mb}m -XX:ReservedCodeCacheSize=80m -XX:+ExplicitGCInvokesConcurrent"
        ),
        "spark.cleaner.periodicGC.interval": "5min",
        "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB": "16",
    }
