"""The Python API: a store, and the questions that can be asked of it."""

import shlex
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from traceanalyzer.cache import cached_store
from traceanalyzer.errors import SourceError, StoreBusyError, StoreError, UsageError
from traceanalyzer.passes.answer import Answer
from traceanalyzer.passes.base import DEVICE_LANE, Pass
from traceanalyzer.passes.fitness import spoiled
from traceanalyzer.passes.query import is_locked, query
from traceanalyzer.passes.registry import PASSES
from traceanalyzer.passes.scaling import scaling_of
from traceanalyzer.passes.scope import Scope, quality_warnings, resolve
from traceanalyzer.passes.selection import Selection, make_selection, spelled
from traceanalyzer.schema.text import storable
from traceanalyzer.store.database import is_about_the_store, one_line, open_to_read
from traceanalyzer.store.location import default_store

if TYPE_CHECKING:
    from traceanalyzer.ingestion import Progress
    from traceanalyzer.report.report import Report

Done = TypeVar("Done")

MOST_OF_HOST = 1_000_000
"""Loader workers of a rank, and cores of a host, that are believed."""


class TraceSet:
    """A store opened to be asked. Use as a context manager, or call `close`.

    Every question takes the same selection: `run` (name, or "all"; default the newest), `rank` ("all", "0,2,4-7" or a
    number), `device`, `source` ("torch", "nsys"), `capture` (numbers of captures, as `info` lists them), `steps`
    ("3-7"), `window` ("0.5:2", seconds after the first operation), `lane` ("device", "compute"), `warmup`, `top` (rows
    of lists, 0 for all), `step_range`, `input_range`, `user_code`, `under`, `metric` (regular expressions), `by` (what
    idle time is grouped by), `align`, `peaks` (a file of peaks of devices), `split` ("ledger", "tensorboard": whose
    parts a summary has). Each raises `UsageError` for a selection that makes no sense.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        path: Path,
        remake: Callable[[], object] | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        self._connection = connection
        self._warnings = warnings
        self.path = path
        self._remake = remake  # makes the store anew, where it is a cached one
        self._memo: dict[Hashable, object] = {}  # what questions worked out that others ask for again

    @classmethod
    def of_files(cls, paths: Sequence[str | Path], *, progress: "Progress | None" = None) -> "TraceSet":
        """The traces of raw files, through a cache keyed by their content. Raises as `ingest` does."""
        lacking: list[SourceError] = []
        store = cached_store(paths, progress, lacking)

        def remake() -> None:
            store.unlink(missing_ok=True)
            cached_store(paths, progress, [])

        try:
            connection = open_to_read(store)
        except StoreBusyError:
            raise
        except StoreError:
            if store.is_dir():
                raise
            remake()
            connection = open_to_read(store)
        return cls(connection, store, remake, [f"left out: {error}" for error in lacking])

    def close(self) -> None:
        """Close the store."""
        self._connection.close()

    def __enter__(self) -> "TraceSet":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def info(self, **selection: object) -> Answer:
        """What the store holds: tables `captures`, `devices`, `answers`, `quality`."""
        return self.ask("info", **selection)

    def gaps(self, **selection: object) -> Answer:
        """Why the devices were idle: tables `devices`, `gaps`, `causes`, `stacks`."""
        return self.ask("gaps", **selection)

    def summary(self, **selection: object) -> Answer:
        """What the steps consist of, in few parts: table `summary`. `split` "tensorboard": that plugin's parts."""
        return self.ask("summary", **selection)

    def ledger(self, **selection: object) -> Answer:
        """Where every nanosecond went: tables `ledger`, `totals`."""
        return self.ask("ledger", **selection)

    def steps(self, **selection: object) -> Answer:
        """How long the steps took, and what recurs in some: tables `steps`, `pauses`, `pause_causes`."""
        return self.ask("steps", **selection)

    def ranges(self, **selection: object) -> Answer:
        """What the host and the devices did inside annotations and NVTX ranges: table `ranges`."""
        return self.ask("ranges", **selection)

    def ops(self, **selection: object) -> Answer:
        """What operators cost: tables `ops`, `by_shape`, `by_module`; `by` says which comes first."""
        return self.ask("ops", **selection)

    def memory(self, **selection: object) -> Answer:
        """Who holds the memory of the devices: tables `curve`, `peak`, `growth`, `growing`, `memory`."""
        return self.ask("memory", **selection)

    def collectives(self, **selection: object) -> Answer:
        """What ranks communicated and who waited for whom: tables `collectives`, `clocks`, `bandwidth`."""
        return self.ask("collectives", **selection)

    def imbalance(self, **selection: object) -> Answer:
        """Which rank is late, and why: tables `ranks`, `stragglers`, `efficiency`, `excess`."""
        return self.ask("imbalance", **selection)

    def kernels(self, **selection: object) -> Answer:
        """Which kernels take the time: tables `kernels`, `operations` (copies and memory sets)."""
        return self.ask("kernels", **selection)

    def streams(self, **selection: object) -> Answer:
        """How busy the streams are, and what runs at once: tables `streams`, `overlap`, `concurrency`."""
        return self.ask("streams", **selection)

    def launches(self, **selection: object) -> Answer:
        """How long launches take to start, and how many wait: tables `launches`, `queues`, `depth`."""
        return self.ask("launches", **selection)

    def metrics(self, **selection: object) -> Answer:
        """What was sampled: tables `metrics`, `rollup` (busy time, gaps), `by_step`, `by_range`, `readings`."""
        return self.ask("metrics", **selection)

    def throughput(self, **selection: object) -> Answer:
        """What limits the profiled kernels: tables `kernels`, `rollup`."""
        return self.ask("throughput", **selection)

    def scaling(self, **selection: object) -> Answer:
        """How well throughput grows with the ranks: tables `scaling`, `lost`. Of all runs, unless `run` names one."""
        return self.ask("scaling", **selection)

    def checkup(
        self,
        *,
        lang: str = "en",
        inputs: str | None = None,
        workers: int | None = None,
        cpus: int | None = None,
        **selection: object,
    ) -> Answer:
        """What limits the job, what it costs a step, and what to change first: tables `verdicts`, `next`,
        `environment`, `charges`. Texts in the language `lang` (en, zh).

        `inputs` is what a command line names the same files and selection by; without it commands name the store.
        `workers` are loader workers of each rank, `cpus` cores of a host that the job may use, where files do not tell.
        """
        _refuse_lane("checkup", selection)
        from traceanalyzer.checkup.check_up import check_up
        from traceanalyzer.checkup.host.hosts import Given
        from traceanalyzer.checkup.messages import LANGUAGES

        if lang not in LANGUAGES:
            raise UsageError(f"--lang {lang}: give {', '.join(LANGUAGES)}")
        named = self._named(inputs)
        for name, value, least in (("workers", workers, 0), ("cpus", cpus, 1)):
            if value is not None and not least <= value <= MOST_OF_HOST:
                raise UsageError(f"--{name} {value}: give a number from {least} to {MOST_OF_HOST}")
        given = Given(workers, cpus)
        return self._answer(
            lambda scope: check_up(scope, language=lang, inputs=named, given=given), selection, every_source=False
        )

    def sql(self, text: str, **selection: object) -> Answer:
        """Rows of a read-only query over the public views: table `rows`.

        Results of passes that it names cover all runs, as the tables do, unless `run` names one.
        """
        chosen = selection | {"run": selection.get("run") or "all"}
        return self._answer(lambda scope: query(scope, text), chosen, every_source=True)

    def export(
        self,
        target: str | Path,
        *,
        tables: Sequence[str] = (),
        form: str | None = None,
        force: bool = False,
        **selection: object,
    ) -> Answer:
        """Write tables, or results of passes, as Parquet or Arrow files: table `files`.

        `target` is a folder, or a file for one table; `form` is "parquet" or "arrow". Raises `UsageError` and
        `ExportError`, as `traceanalyzer.export.tables.export` tells.
        """
        from traceanalyzer.export.tables import export

        # After `sql` the engine refuses to write files for as long as this store is open.
        self._unlock()
        return self._answer(
            lambda scope: export(scope, Path(target), tables=tables, form=form, force=force),
            selection,
            every_source=False,
        )

    def export_timeline(self, target: str | Path, *, force: bool = False, **selection: object) -> Answer:
        """Write one aligned timeline of all selected ranks, for Perfetto and chrome://tracing: table `files`.

        `target` is gzipped where its name ends in .gz. Raises `UsageError` and `ExportError`, as
        `traceanalyzer.export.timeline.write.export_timeline` tells.
        """
        from traceanalyzer.export.timeline.write import export_timeline

        self._unlock()
        return self._answer(
            lambda scope: export_timeline(scope, Path(target), force=force), selection, every_source=False
        )

    def _unlock(self) -> None:
        """Opens the store anew where `sql` has locked the engine's settings."""
        if is_locked(self._connection):
            self._connection.close()
            self._connection = open_to_read(self.path)

    def report(
        self,
        *,
        lang: str = "en",
        inputs: str | None = None,
        full_paths: bool = False,
        key: str | Path | None = None,
        progress: "Progress | None" = None,
        **selection: object,
    ) -> "Report":
        """Everything about one run, to be written as a page (`html`), as Markdown or as JSON.

        Environment variables and user names are left out; paths and host names are shortened unless `full_paths`.
        With `key`, the file of a key, names of hosts, paths, runs and kernels are replaced by stable pseudonyms: a key
        that is there is used again, and `Report.write` keeps it before it writes a page. `inputs` and `lang` are those
        of `checkup`. Raises `UsageError` where several runs are selected, `StoreError` as every question does, and
        `TraceAnalyzerError` where `key` is no key.
        """
        from traceanalyzer.checkup.recordings import one_recording
        from traceanalyzer.report.privacy import Pseudonyms
        from traceanalyzer.report.report import Report, Wishes

        _refuse_lane("report", selection)
        named = self._named(inputs)
        pseudonyms = None if key is None else Pseudonyms(Path(key))

        def made() -> Report:
            chosen: dict[str, Any] = dict(selection)
            scope, left_out = one_recording(self._scope(make_selection(**chosen), every_source=False))
            if left_out:
                chosen["capture"] = spelled(scope.captures)
            if chosen.get("run") is None and scope.runs and self._remake is None:
                chosen["run"] = scope.runs[0]  # the newest one may be another when its commands are run
            wishes = Wishes(named, lang, full_paths, pseudonyms)

            def ask(question: str, **more: Any) -> Answer:
                if question == "checkup":
                    return self.checkup(lang=lang, inputs=wishes.inputs, **chosen, **more)
                return self.ask(question, **chosen, **more)

            scope = self._scope(make_selection(**chosen), every_source=False)
            return Report(scope, ask, wishes, left_out, progress)

        connection = self._connection
        try:
            return self._read(made)
        except StoreError:
            if self._connection is connection:
                raise
            return self._read(made)  # a question had the store made anew, under the others

    def ask(self, question: str, **selection: object) -> Answer:
        """The answer of a pass by its name. Raises `UsageError` where there is no such question."""
        if question not in PASSES:
            raise UsageError(f"no question {question!r}; there are {', '.join(PASSES)}")
        if not PASSES[question].has_lanes:
            _refuse_lane(question, selection)
        if PASSES[question].of_every_run and selection.get("run") is None:
            selection |= {"run": "all"}
        return self._answer(PASSES[question], selection, every_source=question == "info")

    def _named(self, inputs: str | None) -> str:
        """What a command line names this store by, where nothing else is said."""
        return shlex.join(["--db", str(self.path)]) if inputs is None else inputs

    def _scope(self, selection: Selection, *, every_source: bool) -> Scope:
        return replace(resolve(self._connection, selection, every_source=every_source), memo=self._memo)

    def _read(self, work: Callable[[], Done]) -> Done:
        """What some work on the store gives. A damaged store that is a cached one is made anew, once."""
        try:
            return work()
        except duckdb.ConnectionException as error:
            raise StoreError(f"{self.path}: this handle was closed; open the store again") from error
        except duckdb.Error as error:
            if not is_about_the_store(error):
                raise
            if self._remake is not None and not isinstance(error, duckdb.OutOfMemoryException):
                remake, self._remake = self._remake, None
                self._connection.close()
                self._memo = {}
                remake()
                self._connection = open_to_read(self.path)
                return self._read(work)
            raise StoreError(f"{self.path}: the store cannot be read: {one_line(error)}") from error

    def _answer(
        self, compute: Callable[[Scope], Answer], selection: dict[str, object], *, every_source: bool
    ) -> Answer:
        chosen = make_selection(**selection)

        def answered() -> tuple[Scope, Answer]:
            scope = self._scope(chosen, every_source=every_source)
            return scope, compute(scope)

        scope, answer = self._read(answered)
        if answer.command not in ("info", "sql"):
            answer.warnings = spoiled(scope, answer.command) + answer.warnings
            rests_on = compute.captures(scope) if isinstance(compute, Pass) else scope.captures
            answer.warnings += quality_warnings(self._connection, rests_on)
        answer.warnings += self._warnings
        answer.shown_by = _in_notebook
        return answer


def _refuse_lane(question: str, selection: dict[str, object]) -> None:
    """Raises `UsageError` where a lane is asked for that the question has not."""
    lane = selection.get("lane")
    if lane not in (None, DEVICE_LANE):
        raise UsageError(f"--lane {lane}: {question} is of the device lane; gaps can be asked of others")


def _in_notebook(answer: Answer) -> str:
    from traceanalyzer.report.notebook import in_notebook

    return in_notebook(answer)


def open(path: str | Path | None = None) -> TraceSet:  # noqa: A001 - `traceanalyzer.open` is the public name
    """Open a store to ask it: `$TRACEANALYZER_DB`, else `./traceanalyzer.duckdb`, where no path is given.

    Raises `StoreError` (missing, unreadable, no store), `SchemaVersionError`, `StoreBusyError`.
    """
    store = Path(path) if path is not None else default_store()
    return TraceSet(open_to_read(store), store)


def scaling_of_file(path: str | Path) -> Answer:
    """How well throughput grows with the ranks, from a CSV file with the columns `ranks` and `throughput`.

    Table `scaling`. Raises `SourceError`.
    """
    from traceanalyzer.sources.throughputs import read_throughputs

    throughputs, remarks = read_throughputs(Path(path))
    return scaling_of(throughputs, remarks, f"file {storable(str(path))}")
