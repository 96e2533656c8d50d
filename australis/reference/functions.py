"""Functions of Spark SQL that the reference engine knows."""

from __future__ import annotations
