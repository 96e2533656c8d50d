"""Which failures of a query come from the tuples that it computes with."""

from __future__ import annotations

import pytest

from australis.spark.lane import fails_on_tuples

pytestmark = pytest.mark.unit

TASK = "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (
            f"{TASK}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "/home/a/mine.py", line 3, in price\nValueError: bad price',
            True,
        ),
        (
            f"{TASK}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "/opt/australis/spark/reader.py", line 9\nFlightUnavailableError: refused',
            False,
        ),
        (
            "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent"
            ' call last):\n  File "/home/a/mine.py", line 3, in price\nValueError: bad price',
            True,
        ),
        (
            "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent"
            ' call last):\n  File "/opt/australis/runtime/flight_port.py", line 54\nArrowInvalid: x',
            False,
        ),
        (f"{TASK}java.lang.ArithmeticException: long overflow", True),
        (f"{TASK}java.lang.StackOverflowError\n at java.util.regex.Pattern", True),
        (f"{TASK}org.apache.spark.SparkRuntimeException: [X] the value", True),
        (f"{TASK}java.io.IOException: No space left on device", False),
        ("Python worker failed to connect back", False),
        ("java.lang.OutOfMemoryError: Java heap space", False),
    ],
)
def test_failures_of_tuples_are_told_apart(failure: str, told: bool) -> None:
    assert fails_on_tuples(failure) is told
