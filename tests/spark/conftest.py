"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from australis.spark.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    # The tests are over before the JVM's second compiler pays off.
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    session = open_session("local[2]", "australis tests", quick, log=log)
    yield session
    session.stop()
