"""Reports of ncu: what is read of them, and what becomes of cut and damaged ones."""

import gzip
import io
import os

import pytest

from tests.support.memory_sink import MemorySink
from tests.support.ncu_report_writer import CHIP, Profiled, blocks, report
from traceanalyzer.errors import SourceError
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.container import extent_of
from traceanalyzer.sources.ncu_csv.quiet import quiet_stderr
from traceanalyzer.sources.ncu_csv.recognise import can_read_reports
from traceanalyzer.sources.ncu_csv.report import read_report

TIME = "gpu__time_duration.sum"
COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
LAUNCHES = (
    Profiled(metrics={TIME: 1500.0, COMPUTE: 12.5}, rules=[("SOLBottleneck", "Bottleneck", "Look at @url::DRAM@.", 2)]),
    Profiled("copy<float4>(float *)", metrics={TIME: 99.0, "launch__registers_per_thread": 32}),
    Profiled("gemm(float *, int)", metrics={TIME: 1700.0}),
)
needs_package = pytest.mark.skipif(not can_read_reports(), reason="the extra ncu-rep is not installed")


def read(folder, content):
    path = folder / "kernels.ncu-rep"
    path.write_bytes(content)
    sink = MemorySink()
    read_report(TraceFile(path), sink)
    return sink


def profiles(sink, *columns):
    return [tuple(row.get(c) for c in columns) for row in sink.rows("kernel_profiles")]


def codes(sink):
    return {code: count for (code, _), count in sink.notes.items()}


class TestContainer:
    def test_the_extent_of_a_report_cut_anywhere(self):
        parts = blocks(*LAUNCHES)
        whole = b"".join(parts)
        ends = [sum(map(len, parts[: k + 1])) for k in range(len(parts))]
        launches = [0, 0, 1, 2, 3]
        for cut in range(4, len(whole) + 1):
            complete = [k for k, end in enumerate(ends) if end <= cut]
            extent = extent_of(io.BytesIO(whole[:cut]))
            assert extent.whole_bytes == (ends[complete[-1]] if complete else 0)
            assert extent.launches == (launches[complete[-1]] if complete else 0)
            assert extent.whole == (cut in ends)

    @pytest.mark.parametrize(
        "tail",
        [
            bytes(4),  # a header that says nothing
            b"\xff\xff\xff\xff",  # longer than the file
            b"\x02\x00\x00\x00\x28\x01",  # a payload that is not there
            b"\x04\x00\x00\x00\x10\x02\x28\x00",  # two launches in no bytes
            b"\x04\x00\x00\x00\x28\x04\x10\x01\xff\xff\xff\x7f",  # a launch longer than its block
            b"\x02\x00\x00\x00\x28\xff",  # a number without end
            b"\x02\x00\x00\x00\x2f\x01",  # a kind of field that there is not
        ],
    )
    def test_lengths_that_do_not_fit_end_it(self, tail):
        whole = report(*LAUNCHES)
        extent = extent_of(io.BytesIO(whole + tail))
        assert (extent.whole_bytes, extent.launches, extent.whole) == (len(whole), 3, False)


class TestQuiet:
    def test_what_is_written_past_python_goes_nowhere(self, capfd):
        with quiet_stderr():
            os.write(2, b"noise\n")
        os.write(2, b"ours\n")
        assert capfd.readouterr().err == "ours\n"

    def test_stderr_is_given_back_after_an_error(self, capfd):
        with pytest.raises(ValueError, match="damaged"), quiet_stderr():
            raise ValueError("damaged")
        os.write(2, b"ours\n")
        assert capfd.readouterr().err == "ours\n"


@needs_package
class TestReports:
    def test_launches_metrics_and_rules(self, tmp_path, capfd):
        sink = read(tmp_path, report(*LAUNCHES))
        assert profiles(sink, "id", "kernel", "duration_ns", "compute_pct", "registers_per_thread") == [
            (0, "gemm(float *, int)", 1500, 12.5, None),
            (1, "copy<float4>(float *)", 99, None, 32),
            (2, "gemm(float *, int)", 1700, None, None),
        ]
        assert profiles(sink, "nvidia_verdict", "nvidia_verdict_type")[0] == ("Look at DRAM.", "WRN")
        assert len(sink.rows("kernel_metrics")) == 5 + 3 * len(CHIP)
        assert sink.facts.whole and not codes(sink)
        assert capfd.readouterr().err == ""

    def test_a_report_cut_anywhere_keeps_its_whole_launches_and_says_so(self, tmp_path, capfd):
        parts = blocks(*LAUNCHES)
        whole, head = b"".join(parts), len(parts[0])
        ends = [sum(map(len, parts[: k + 1])) for k in range(len(parts))]
        for cut in {*range(head + 1, len(whole), 23), *(end + step for end in ends for step in (-1, 1))}:
            if not head < cut < len(whole):
                continue
            sink = read(tmp_path, whole[:cut])
            expected = [1500, 99, 1700][: sum(end <= cut for end in ends[2:])]
            assert [ns for (ns,) in profiles(sink, "duration_ns")] == expected
            assert "truncated" in codes(sink) and not sink.facts.whole
            assert ("no_launches" in codes(sink)) == (not expected)
        assert capfd.readouterr().err == ""

    def test_a_report_cut_in_its_header_is_refused(self, tmp_path):
        with pytest.raises(SourceError, match="ends within its header"):
            read(tmp_path, report(*LAUNCHES)[:9])

    def test_a_packed_report_that_was_cut(self, tmp_path):
        sink = read(tmp_path, gzip.compress(report(*LAUNCHES), 0)[:-100])
        assert [ns for (ns,) in profiles(sink, "duration_ns")] == [1500, 99]
        assert codes(sink) == {"truncated": 1, "compression_damaged": 1} and not sink.facts.whole

    def test_launches_that_cannot_be_read_are_left_out_and_counted(self, tmp_path, capfd):
        parts = blocks(*LAUNCHES)
        parts[3] = parts[3][:-40] + bytes(40)
        sink = read(tmp_path, b"".join(parts))
        assert profiles(sink, "id", "duration_ns") == [(0, 1500), (2, 1700)]
        assert codes(sink) == {"launches_damaged": 1} and sink.facts.whole
        assert capfd.readouterr().err == ""

    @pytest.mark.parametrize("old", [b"sm__throughput", b"launch__registers"])
    def test_what_the_package_fails_at_is_an_error_of_the_file(self, tmp_path, old, capfd):
        with pytest.raises(SourceError, match="a damaged report") as error:
            read(tmp_path, report(*LAUNCHES).replace(old, b"\xff" * len(old)))
        assert "\n" not in str(error.value)
        assert capfd.readouterr().err == ""

    def test_our_own_errors_stay_what_they_are(self, tmp_path, monkeypatch):
        monkeypatch.setattr(MemorySink, "write", lambda *_: (_ for _ in ()).throw(SourceError("x", "too many rows")))
        with pytest.raises(SourceError, match="x: too many rows"):
            read(tmp_path, report(*LAUNCHES))
