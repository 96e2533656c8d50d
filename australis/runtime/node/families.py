"""The families of all messages that one node may send to another."""

from __future__ import annotations

from australis.runtime.node.wire import Families
from australis.runtime.node.wire_control import CHANGE, REGISTER
from australis.runtime.node.wire_dpc import DPC

FAMILIES = Families(DPC, REGISTER, CHANGE)
