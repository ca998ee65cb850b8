"""Present values of the settings that advice is about, as far as the files tell them."""

import json
import re
from dataclasses import dataclass
from functools import cached_property

from traceanalyzer.checkup.host.hosts import Given, Host, hosts_of
from traceanalyzer.checkup.messages import Messages
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import CopyKind, EventKind, MemoryKind
from traceanalyzer.store.database import first_row

_VARIABLES = ("NCCL_", "PYTORCH_", "TORCH_", "OMP_", "CUDA_")
_SINGLE, _SEVERAL = re.compile("SingleProcessDataLoaderIter"), re.compile("MultiProcessingDataLoaderIter")
LEAST_PAGEABLE = 0.01
"""A smaller share of the bytes from pageable memory is none."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's present value as text, and where it was seen: a key of the messages `source`."""

    value: str
    source: str


class Settings:
    """Looks for the settings of the selected captures. A setting that nothing tells is None, never a default."""

    def __init__(self, scope: Scope, messages: Messages, given: Given | None = None) -> None:
        self._scope, self._messages, self._given = scope, messages, given or Given()

    def get(self, name: str) -> Setting | None:
        """The present value of a setting: `num_workers`, `pin_memory`, or the name of an environment variable."""
        if name == "num_workers":
            return self._workers
        if name == "pin_memory":
            return self._pinned
        if name == "power limit":
            return self._power_limit
        if not name.startswith(_VARIABLES):
            return None
        unset = Setting(self._messages.text("value.unset"), "environment") if self.variables else None
        return self.variables.get(name, unset)

    @cached_property
    def hosts(self) -> list[Host]:
        """The hosts that recorded ranks ran on."""
        return hosts_of(self._scope, self._given)

    @cached_property
    def variables(self) -> dict[str, Setting]:
        """Environment variables that files recorded: of the launched process all that are harmless to keep."""
        out: dict[str, Setting] = {}
        for (text,) in self._scope.connection.execute(
            f"SELECT metadata FROM stored.captures WHERE capture IN {self._scope.numbers()} ORDER BY capture"
        ).fetchall():
            found = _environment(text)
            for name, value in sorted(found.items()):
                if name.startswith(_VARIABLES):
                    out.setdefault(name, Setting(str(value), "environment"))
        return out

    @cached_property
    def _workers(self) -> Setting | None:
        names = self._loaders()
        told = [host for host in self.hosts if host.workers is not None]
        if told:
            each = sorted({host.workers_per_rank for host in told if host.workers_per_rank is not None})
            value = ", ".join(map(str, each)) or f"{told[0].workers}"
            return Setting(value, told[0].source)
        if any(_SEVERAL.search(name) for name in names):
            return Setting(self._messages.text("value.several"), "loader")
        if any(_SINGLE.search(name) for name in names):
            return Setting("0", "loader")
        return None

    def _loaders(self) -> list[str]:
        """Names of recorded code that are those of an iterator of a data loader."""
        kinds = f"({int(EventKind.RANGE)}, {int(EventKind.OPERATOR)}, {int(EventKind.PYTHON_FRAME)})"
        rows = self._scope.connection.execute(
            f"""SELECT DISTINCT n.text FROM stored.names n WHERE n.text LIKE '%DataLoaderIter%' AND n.name_id IN (
                SELECT name FROM stored.cpu_events WHERE capture IN {self._scope.numbers()} AND kind IN {kinds}
                UNION SELECT frame FROM stored.stack_nodes)"""
        ).fetchall()
        return [text for (text,) in rows]

    @property
    def all_pinned(self) -> bool:
        """Whether copies to the device are known to come from pinned memory."""
        return self.pageable_share is not None and self.pageable_share < LEAST_PAGEABLE

    @cached_property
    def _power_limit(self) -> Setting | None:
        """The power limit that telemetry tells; of several GPUs the lowest."""
        row = first_row(
            self._scope.connection.execute(
                f"""SELECT min(m.value) FROM stored.metric_samples m JOIN stored.names n ON n.name_id = m.metric
                WHERE m.capture IN {self._scope.numbers()} AND m.value > 0 AND (
                    n.text IN ('power.limit', 'enforced.power.limit') OR n.text LIKE '%POWER_MGMT_LIMIT%')"""
            )
        )
        return Setting(f"{row[0]:,.0f} W", "telemetry") if row and row[0] is not None else None

    @cached_property
    def pageable_share(self) -> float | None:
        """Share of the bytes copied to the device that come from pageable memory; None where nothing tells."""
        row = first_row(
            self._scope.connection.execute(
                f"""SELECT coalesce(sum(bytes) FILTER (source_memory = {int(MemoryKind.PAGEABLE)}), 0), sum(bytes)
                FROM stored.gpu_ops WHERE capture IN {self._scope.numbers()} AND copy_kind = {int(CopyKind.HTOD)}
                    AND source_memory IN ({int(MemoryKind.PAGEABLE)}, {int(MemoryKind.PINNED)})"""
            )
        )
        return row[0] / row[1] if row and row[1] else None

    @property
    def _pinned(self) -> Setting | None:
        share = self.pageable_share
        if share is None:
            return None
        key = "pinned" if share < LEAST_PAGEABLE else "pageable"
        return Setting(self._messages.text(f"value.{key}", share=f"{100 * share:.0f} %"), "copies")


def _environment(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    own = found.get("environment") if isinstance(found, dict) else None
    return own if isinstance(own, dict) else {}
