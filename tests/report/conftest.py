"""Reports of the samples, made once."""

from pathlib import Path

import pytest

from traceanalyzer.traceset import TraceSet

SAMPLES = Path(__file__).parents[2] / "sample_traces"
NAMES = ("planted_sleep", "ddp2_slow1", "launch_bound", "kernel_limits", "telemetry")


@pytest.fixture(scope="session", params=NAMES)
def sample(request, tmp_path_factory):
    """A sample: its traces, opened, and the report of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEANALYZER_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = SAMPLES / request.param
        with TraceSet.of_files([folder]) as traces:
            yield Sample(request.param, traces, traces.report(inputs=str(folder)))


class Sample:
    """A sample by its name."""

    def __init__(self, name, traces, report):
        self.name, self.traces, self.report = name, traces, report
