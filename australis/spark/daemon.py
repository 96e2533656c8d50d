"""pyspark's worker daemon, which imports what every worker needs before it forks.

Workers then share those pages instead of holding a copy each, and start faster.
`spark.python.daemon.module` names this module. The module of the lanes' port is not
known here; an environment variable names it.
"""

from __future__ import annotations

import gc
import importlib
import os

import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow.pandas_compat  # noqa: F401
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import australis.spark.output
import australis.spark.source  # noqa: F401

PRELOAD = "AUSTRALIS_PRELOAD"

if __name__ == "__main__":
    if os.environ.get(PRELOAD):
        importlib.import_module(os.environ[PRELOAD])
    gc.freeze()
    manager()
