"""The job that is checked up: its ledger cut by verdict, its ranks, and what verdicts ask of passes, once each."""

from functools import cached_property
from typing import Any

from traceanalyzer.checkup.charges import DeviceCharges, charges_of
from traceanalyzer.checkup.host.hosts import Given, Host
from traceanalyzer.checkup.messages import Messages
from traceanalyzer.checkup.settings import Settings
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.passes.chosen import chosen_operations
from traceanalyzer.passes.communication.ranks import communication_of
from traceanalyzer.passes.fitness import PROBLEM, fitness
from traceanalyzer.passes.idle.backward import records_frames, records_stacks
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.imbalance import imbalance
from traceanalyzer.passes.kernels import LIMITS
from traceanalyzer.passes.limits.device_limits import KernelLimits, limit_rows
from traceanalyzer.passes.limits.timeline import TimelineKernels
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.telemetry.watched import Watched
from traceanalyzer.store.database import first_row
from traceanalyzer.units import Unit, format_value
from traceanalyzer.views.commands import command_line


class Job:
    """Everything that verdicts are made from, for the one run of a scope.

    `inputs` is what a command line names the same captures and selection by, `given` what is said of the host. Costs
    are those of typical devices: all but those of ranks that the others wait for, whose own time is what the others'
    waits are told by.
    """

    def __init__(self, scope: Scope, messages: Messages, inputs: str, given: Given | None = None) -> None:
        self.scope, self.messages, self._inputs = scope, messages, inputs
        self.given = given or Given()
        self.tree = StackTree(scope)
        communication = communication_of(scope)
        self.waits_in_messages = communication.waits_in_messages
        every = [charges_of(scope, self.tree, part, communication) for part in devices_with_gaps(scope, self.tree)]
        stepped = [each for each in every if each.stepped]
        self.stepped = bool(stepped)
        self.devices: list[DeviceCharges] = [each for each in stepped or every if each.total_ns]
        self.settings = Settings(scope, messages, self.given)
        self.watched = Watched(scope)

    def command(self, words: str) -> str:
        """A command line of this program about the same captures."""
        return command_line(words, self._inputs, self.scope.selection)

    @property
    def hosts(self) -> list[Host]:
        """The hosts that recorded ranks ran on."""
        return self.settings.hosts

    @cached_property
    def imbalance(self) -> Answer | None:
        """Which ranks are late; None for a single rank."""
        if len({each.device.rank for each in self.devices}) < 2:
            return None
        return imbalance(self.scope)

    @cached_property
    def typical(self) -> list[DeviceCharges]:
        """The devices that costs are told of."""
        late = set(self.imbalance.tables["stragglers"].columns["rank"]) if self.imbalance else set()
        return [each for each in self.devices if each.device.rank not in late] or self.devices

    @property
    def step_ns(self) -> float:
        """Length of a step of the typical devices, mean; the span where there are no steps."""
        return sum(each.step_ns for each in self.typical) / len(self.typical) if self.typical else 0.0

    @property
    def compute_share(self) -> float:
        """Share of the step in which compute runs."""
        if not self.typical:
            return 0.0
        shares = [each.compute_ns / each.total_ns for each in self.typical]
        return sum(shares) / len(shares)

    @property
    def n_steps(self) -> int:
        """Steps that count, on the typical device that has fewest."""
        return min((each.n_steps for each in self.typical), default=0)

    def cost_ns(self, verdict: str) -> float:
        """What a verdict costs a step: the mean of the typical devices."""
        return sum(each.cost_ns(verdict) for each in self.typical) / len(self.typical) if self.typical else 0.0

    def costliest(self, verdict: str) -> DeviceCharges:
        """The typical device on which a verdict costs most."""
        return max(self.typical, key=lambda each: (each.cost_ns(verdict), -each.device.capture, -each.device.device))

    @cached_property
    def kernels(self) -> TimelineKernels:
        """The kernels of the first typical device, with what limits them: the others do the same."""
        device = self.typical[0].device
        return KernelLimits(self.scope).kernels(device, chosen_operations(self.scope, device))

    @cached_property
    def limits(self) -> list[dict[str, Any]]:
        """Rows of the table `limits` of `kernels`, of that device."""
        if not self.typical:
            return []
        return list(Frame.of_rows(LIMITS, limit_rows(self.typical[0].device, self.kernels)).rows())

    @cached_property
    def world_size(self) -> int:
        """Ranks of the job, as the files tell; 0 where none does."""
        row = first_row(
            self.scope.connection.execute(
                f"SELECT max(world_size) FROM stored.captures WHERE capture IN {self.scope.numbers()}"
            )
        )
        return int(row[0]) if row and row[0] else 0

    @cached_property
    def is_torch(self) -> bool:
        """Whether the job uses PyTorch, by names of its operators and kernels."""
        row = first_row(
            self.scope.connection.execute(
                f"""SELECT 1 FROM stored.names WHERE (text LIKE 'aten::%' OR text LIKE '%at::native%') AND name_id IN (
                    SELECT name FROM stored.cpu_events WHERE capture IN {self.scope.numbers()}
                    UNION SELECT name FROM stored.gpu_ops WHERE capture IN {self.scope.numbers()}) LIMIT 1"""
            )
        )
        return row is not None

    @property
    def per(self) -> str:
        """What counts are of: a step, or without steps all of it."""
        return self.messages.text(f"per.{'step' if self.stepped else 'span'}")

    @cached_property
    def is_hip(self) -> bool:
        """Whether the devices are AMD's, by the runtime that files name."""
        row = first_row(
            self.scope.connection.execute(
                f"""SELECT 1 FROM stored.captures WHERE capture IN {self.scope.numbers()}
                    AND metadata LIKE '%"hip_runtime_version"%' LIMIT 1"""
            )
        )
        return row is not None

    def falls(self, saved_ns: float) -> str:
        """What a step, or without steps the span, gets shorter to at best if some of it is saved."""
        without = self.time(self.step_ns - saved_ns)
        return self.messages.text(f"falls.{'step' if self.stepped else 'span'}", without=without)

    @cached_property
    def fitness(self) -> list[dict[str, Any]]:
        """Rows of the table `fitness`."""
        return list(fitness(self.scope).rows())

    @cached_property
    def problems(self) -> set[str]:
        """Checks of fitness that found what spoils answers about gaps."""
        return {row["check"] for row in self.fitness if row["state"] == PROBLEM and "gaps" in row["spoils"].split(", ")}

    def records_frames(self, charges: DeviceCharges) -> bool:
        """Whether Python frames were recorded one by one, which slows the host."""
        return records_frames(self.scope, charges.device.capture)

    def records_stacks(self, charges: DeviceCharges) -> bool:
        """Whether stacks of Python were recorded or sampled, so that lines of code can be named."""
        return records_stacks(self.scope, charges.device.capture)

    def time(self, ns: float) -> str:
        """A time as people read it."""
        return format_value(round(ns), Unit.NS)

    def share(self, share: float) -> str:
        """A share as people read it."""
        return format_value(share, Unit.SHARE)
