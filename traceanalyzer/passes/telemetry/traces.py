"""The traces of the same run that telemetry is held against: their devices, processes, steps and clocks."""

from dataclasses import dataclass

from traceanalyzer.passes.scope import TIMELINES, DeviceOfCapture, Scope
from traceanalyzer.passes.telemetry.series import Place
from traceanalyzer.store.database import first_row


@dataclass(frozen=True, slots=True)
class CaptureClock:
    """A capture and its clock: first and last instant of its own, and what makes Unix time of them, if known."""

    capture: int
    run: str
    source: str
    start_ns: int | None
    end_ns: int | None
    utc_offset_ns: int | None
    dateless: bool


@dataclass(frozen=True, slots=True)
class Match:
    """A device of a trace that is the device of a place, and by what it was told: `uuid` or `device`."""

    device: DeviceOfCapture
    matched_by: str


class Traces:
    """What is known of the traces of a scope, beside its telemetry."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._steps: dict[str, int | None] = {}
        rows = scope.connection.execute(
            f"""SELECT capture, run, source, start_ns, end_ns, utc_offset_ns,
                EXISTS (SELECT 1 FROM stored.quality q WHERE q.capture = c.capture AND q.code = 'no_date')
            FROM stored.captures c WHERE capture IN {scope.numbers()} ORDER BY capture"""
        ).fetchall()
        self.clocks = {row[0]: CaptureClock(*row) for row in rows}
        uuids = scope.connection.execute(
            f"""SELECT d.capture, d.device, n.text FROM stored.devices d JOIN stored.names n ON n.name_id = d.uuid
            WHERE d.capture IN {scope.numbers()}"""
        ).fetchall()
        self._uuids = {(capture, device): _bare(text) for capture, device, text in uuids}

    def devices(self, place: Place) -> list[Match]:
        """Devices of traces of the same run that are the one of a place."""
        run = self.clocks[place.capture].run
        mine = self._uuids.get((place.capture, place.device))
        found = []
        for device in self._scope.devices:
            if device.run != run or device.source not in TIMELINES:
                continue
            other = self._uuids.get((device.capture, device.device))
            if mine is not None and other is not None:
                if mine == other:
                    found.append(Match(device, "uuid"))
            elif device.device == place.device:
                found.append(Match(device, "device"))
        return found

    def step_ns(self, run: str) -> int | None:
        """The median step of the run's traces, as the host marks it; None without steps."""
        if run not in self._steps:
            self._steps[run] = self._median_step(run)
        return self._steps[run]

    def _median_step(self, run: str) -> int | None:
        result = self._scope.connection.execute(
            """SELECT median(s.end_ns - s.start_ns)::BIGINT FROM stored.steps s JOIN stored.captures c USING (capture)
            WHERE c.run = ?""",
            [run],
        )
        row = first_row(result)
        return None if row is None or row[0] is None else int(row[0])

    def processes(self, run: str) -> set[int]:
        """Pids of the processes of a run that a trace has operations of."""
        rows = self._scope.connection.execute(
            f"""SELECT DISTINCT o.process FROM stored.gpu_ops o JOIN stored.captures c USING (capture)
            WHERE c.run = ? AND c.capture IN {self._scope.numbers()} AND o.process IS NOT NULL""",
            [run],
        ).fetchall()
        return {int(process) for (process,) in rows}


def _bare(uuid: str) -> str:
    """A uuid without prefix and hyphens, as tools write them differently."""
    return uuid.lower().removeprefix("gpu-").replace("-", "")
