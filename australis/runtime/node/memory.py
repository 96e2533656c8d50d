"""Settings that keep the memory of a node's processes bounded."""

from __future__ import annotations

import ctypes

import pyarrow as pa

_ARENAS = -8
"""The `mallopt` parameter of glibc for the number of memory pools (arenas)."""
_TRIM = -1
"""The `mallopt` parameter of glibc for the free memory above which a pool is trimmed."""


def give_back() -> None:
    """Make this process return freed memory, instead of keeping pools for each thread.

    Call it before threads start. It does nothing where the C library has no `mallopt`.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENAS, 2)
        mallopt(_TRIM, 1 << 20)


def spark_settings(memory_mb: int) -> dict[str, str]:
    """Settings that limit the growth of a node's warm JVM to about a megabyte a minute.

    The heap is committed from the start. About one class is compiled per micro-batch, and classes
    are unloaded only in a collection of the old generation, which a small heap does not need for
    hours: so a concurrent one runs every few minutes. Without a limit compiled code grew to 95 MB
    in eleven minutes. RocksDB by default keeps up to 64 MB of a state's newest rows in memory.
    """
    return {
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.defaultJavaOptions": (
            f"-Xms{memory_mb}m -XX:ReservedCodeCacheSize=80m -XX:+ExplicitGCInvokesConcurrent"
        ),
        "spark.cleaner.periodicGC.interval": "5min",
        "spark.sql.streaming.stateStore.rocksdb.writeBufferSizeMB": "16",
    }
