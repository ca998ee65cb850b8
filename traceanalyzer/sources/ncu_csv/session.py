"""The session page: with which version, on which host and on which GPUs the report was recorded."""

import re
from decimal import Decimal

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.ncu_csv.devices import Devices
from traceanalyzer.sources.ncu_csv.numbers import is_id
from traceanalyzer.sources.ncu_csv.tables import Row

_VERSION = re.compile(r"\d+(?:\.\d+)+")


class Session:
    """Facts of the session. The command line and the processes are not kept: they may hold what is private."""

    def __init__(self, sink: Sink, devices: Devices) -> None:
        self._facts, self._devices = sink.facts, devices

    def take(self, row: Row) -> None:
        """A row of one of the page's tables."""
        title, value = row.header.names[0], row.cells[1] if len(row.cells) > 1 else ""
        if title == "Session Attribute":
            if row.cells[0] == "Host Name":
                self._facts.host = value or None
            elif row.cells[0] == "Nsight Compute Target" and (found := _VERSION.match(value)):
                self._facts.tool_version = found[0]
        elif title == "Device Attribute":
            for name, text in zip(row.header.names[1:], row.cells[1:], strict=True):
                number = name.rpartition(" ")[2]
                if is_id(number):
                    value_ = Decimal(text) if is_id(text) else None
                    self._devices.take(int(number), row.cells[0], value_, text)
