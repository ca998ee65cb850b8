"""The reader of nvidia-smi on texts whose values are known."""

import gzip

import pytest

from tests.support.smi_reading import FIRST, codes, read_text, samples
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import find_files
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nvidia_smi import SOURCE

SECOND = 10**9
DMON = """# gpu    pwr  gtemp     sm
# Idx      W      C      %
    0    630     53    100
    1     79      -      0
"""


class TestMonitor:
    def test_rounds_devices_units_and_missing_values(self):
        sink = read_text(DMON + DMON + "    0    631     54     99\n")
        assert samples(sink, "pwr") == [630, 79, 630, 79, 631]
        assert samples(sink, "gtemp") == [53, None, 53, None, 54]
        assert samples(sink, "sm", "tick") == [0, 0, 1, 1, 2]
        assert samples(sink, "sm", "device") == [0, 1, 0, 1, 0]
        assert samples(sink, "sm", "metric_unit") == ["%"] * 5
        assert not sink.notes and sink.facts.start_ns is None

    def test_a_lost_row_does_not_merge_rounds(self):
        rows = DMON + "    1     80     40      7\n    0    632     54     98\n    1     81     41      8\n"
        assert samples(read_text(rows), "pwr", "tick") == [0, 0, 1, 2, 2]

    def test_another_header_inside(self):
        sink = read_text(DMON + "# gpu   sm    fb\n# Idx    %    MB\n    0   50  1024\n")
        assert samples(sink, "sm") == [100, 0, 50] and samples(sink, "fb", "metric_unit") == ["MB"]
        assert len(samples(sink, "pwr")) == 2

    def test_units_are_known_without_their_line(self):
        sink = read_text("# gpu   pwr   new\n    0   630     7\n")
        assert samples(sink, "pwr", "metric_unit") == ["W"] and samples(sink, "new", "metric_unit") == [None]

    def test_date_and_time_are_as_if_utc(self):
        sink = read_text(
            "#Date       Time        gpu   sm\n#YYYYMMDD   HH:MM:SS    Idx    %\n 20261129   16:10:01      0   98\n"
        )
        assert samples(sink, "sm", "t_ns") == [FIRST + SECOND] and samples(sink, "sm", "tick") == [None]
        assert codes(sink) == {"local_time"} and sink.facts.utc_offset_ns is None
        assert (sink.facts.start_ns, sink.facts.end_ns) == (FIRST + SECOND, FIRST + SECOND)

    def test_times_without_a_date_cross_midnight(self):
        rows = "".join(
            f" {time}   0   {k}\n" for k, time in enumerate(("23:59:58", "23:59:59", "00:00:00", "00:00:01"))
        )
        sink = read_text("#Time        gpu   sm\n#HH:MM:SS    Idx    %\n" + rows)
        assert [t // SECOND for t in samples(sink, "sm", "t_ns")] == [86398, 86399, 86400, 86401]
        assert codes(sink) == {"no_date"}

    def test_a_date_alone_orders_by_rounds(self):
        sink = read_text("#Date       gpu   sm\n#YYYYMMDD   Idx    %\n 20261129     0   98\n 20261129     0   97\n")
        assert samples(sink, "sm", "tick") == [0, 1] and sink.facts.start_ns is None

    def test_csv(self):
        sink = read_text("#gpu, pwr, sm\n#Idx, W, %\n 0, 630, 100\n 0, -, 99\n")
        assert samples(sink, "pwr") == [630, None] and samples(sink, "sm") == [100, 99]

    def test_torn_rows_are_left_out_and_said(self):
        sink = read_text(DMON + "    0    63\n    0   631   54   9 8 7\n    0    631     54     99\n")
        assert samples(sink, "pwr") == [630, 79, 631]
        assert {(code, n) for (code, _), n in sink.notes.items()} == {("torn_rows", 2)}

    def test_a_last_row_without_its_end_loses_its_last_value(self):
        sink = read_text(DMON[:-2] + "1")  # of 100, for all that one knows
        assert samples(sink, "sm") == [100, None] and codes(sink) == {"last_value_cut"}

    def test_processes(self):
        head = "# gpu   pid  type    sm   fb    command\n# Idx     #   C/G     %   MB    name\n"
        rows = "    0    11     C    20   64    NVIDIA Overlay.\n    0    12     C     -  128    python3\n"
        none = "    1     -     -     -    -    -\n"
        sink = read_text(head + rows + none + rows + none)
        assert samples(sink, "sm") == [20, None, 20, None]
        assert samples(sink, "fb", "process") == [11, 12, 11, 12]
        assert samples(sink, "fb", "instance") == ["NVIDIA Overlay.", "python3"] * 2
        assert samples(sink, "fb", "tick") == [0, 0, 1, 1]

    def test_values_that_no_gpu_has_are_said(self):
        sink = read_text(DMON + "    0    630     53    250\n    0    630     53    abc\n")
        assert samples(sink, "sm")[2:] == [250, None]
        assert codes(sink) == {"out_of_range", "unreadable_value"}


QUERY = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], temperature.gpu, pstate
2026/11/29 16:10:00.265, 0, NVIDIA H200, 98 %, 10 MiB, 136.90 W, 42, P0
2026/11/29 16:10:00.288, 1, NVIDIA H200, [N/A], 20 MiB, [Not Supported], N/A, P8
"""


class TestQuery:
    def test_values_units_times_and_devices(self):
        sink = read_text(QUERY)
        assert samples(sink, "utilization.gpu") == [98, None] and samples(sink, "power.draw") == [136.9, None]
        assert samples(sink, "temperature.gpu") == [42, None] and samples(sink, "pstate") == [0, 8]
        assert samples(sink, "memory.used", "t_ns") == [FIRST + 265_000_000, FIRST + 288_000_000]
        assert samples(sink, "memory.used", "device") == [0, 1]
        assert [samples(sink, m, "metric_unit")[0] for m in ("memory.used", "temperature.gpu", "pstate")] == [
            "MiB",
            "C",
            None,
        ]
        assert [row["name"] for row in sink.rows("devices")] == ["NVIDIA H200"] * 2
        assert sink.facts.metadata["environment"]["gpu_name"] == ["NVIDIA H200"] * 2

    def test_a_header_that_comes_again_and_another_one(self):
        sink = read_text(QUERY + QUERY + "index, utilization.gpu [%]\n0, 7 %\n")
        assert samples(sink, "utilization.gpu") == [98, None, 98, None, 7]
        assert not codes(sink) - {"local_time"}

    def test_without_an_index_devices_count_by_first_sight(self):
        sink = read_text(
            "uuid, pstate, clocks_event_reasons.active, clocks_event_reasons.hw_slowdown\n"
            "GPU-b1, P0, 0x0000000000000004, Active\nGPU-a2, P2, 0x0000000000000000, Not Active\n"
        )
        assert samples(sink, "pstate", "device") == [0, 1]
        assert samples(sink, "clocks_event_reasons.active") == [4, 0]
        assert samples(sink, "clocks_event_reasons.hw_slowdown") == [1, 0]
        assert [row["uuid"] for row in sink.rows("devices")] == ["GPU-b1", "GPU-a2"]
        assert codes(sink) == {"devices_by_order"}

    def test_a_column_that_counts_is_trusted_before_an_index_that_does_not(self):
        rows = "".join(f"2025-09-08T17:26:{s}+08:00,{gpu}, 0, {gpu + 70}\n" for s in (50, 51) for gpu in range(4))
        sink = read_text("timestamp,gpu,index,power.draw\n" + rows)
        assert samples(sink, "power.draw", "device") == [0, 1, 2, 3] * 2
        assert samples(sink, "power.draw", "t_ns")[0] == 1_757_323_610 * SECOND
        assert sink.facts.utc_offset_ns == 0 and samples(sink, "power.draw", "metric_unit")[0] == "W"

    def test_rows_of_several_gpus_that_nothing_tells_apart_belong_to_none(self):
        rows = "".join(f"2026/11/29 16:10:{s:02}.{k:03}, {s + k} %\n" for s in range(9) for k in (1, 3))
        sink = read_text("timestamp, utilization.gpu [%]\n" + rows)
        assert set(samples(sink, "utilization.gpu", "device")) == {None}
        assert "devices_not_told" in codes(sink)
        one = read_text("timestamp, utilization.gpu [%]\n" + "".join(rows.splitlines(keepends=True)[::2]))
        assert set(samples(one, "utilization.gpu", "device")) == {0} and "device_assumed" in codes(one)

    @pytest.mark.parametrize(
        ("times", "first_ns"),
        [
            (("1746556382.8348258", "1746556383.3749516"), 1_746_556_382_834_825_800),
            (("1746556382834", "1746556383374"), 1_746_556_382_834 * 10**6),
            (("03-11-2026 23:59:59", "03-12-2026 00:00:00"), 1_773_273_599 * SECOND),
            (("11-03-2026 23:59:59", "12-03-2026 00:00:00"), 1_773_273_599 * SECOND),
            (("31.12.2026 23:59:59", "01.01.2027 00:00:00"), 1_798_761_599 * SECOND),
            (("11/29/2026 4:10:00 PM", "11/29/2026 4:10:01 PM"), FIRST),
            (("0.5", "1.5"), 500_000_000),
        ],
    )
    def test_times_of_scripts(self, times, first_ns):
        sink = read_text("timestamp,utilization.gpu\n" + "".join(f"{t},50\n" for t in times))
        instants = samples(sink, "utilization.gpu", "t_ns")
        assert instants[0] == first_ns and 0 < instants[1] - first_ns <= SECOND

    def test_dates_that_may_be_read_two_ways_are_said(self):
        sink = read_text("timestamp,utilization.gpu\n03-11-2026 15:13:16,99\n03-11-2026 15:14:16,98\n")
        assert "ambiguous_date" in codes(sink)
        assert samples(sink, "utilization.gpu", "t_ns")[0] == 1_773_241_996 * SECOND

    def test_date_and_time_in_two_columns(self):
        sink = read_text("date,time,utilization.gpu\n2026-11-29,16:10:00,99\n")
        assert samples(sink, "utilization.gpu", "t_ns") == [FIRST]

    @pytest.mark.parametrize("sign", [";", "\t", "|"])
    def test_other_separators(self, sign):
        assert samples(read_text(QUERY.replace(", ", sign)), "utilization.gpu") == [98, None]

    def test_units_alone_name_columns_by_place(self):
        sink = read_text("".join(f"{line}\n" for line in QUERY.splitlines()[1:]))
        assert samples(sink, "column 4") == [98, None] and samples(sink, "column 6", "metric_unit")[0] == "W"
        assert "no_header" in codes(sink)

    def test_a_unit_that_the_range_denies_is_not_given(self):
        sink = read_text("timestamp,index,utilization.gpu,memory.used\n1746556382,0,9800,10\n")
        assert samples(sink, "utilization.gpu", "metric_unit") == [None]
        assert samples(sink, "memory.used", "metric_unit") == [None]  # nothing states it

    def test_a_last_row_without_its_end(self):
        head = "index, power.draw [W], temperature.gpu\n0, 9.50 W, 42\n"
        assert samples(read_text(head + "0, 10.25 W, 4"), "temperature.gpu") == [42, None]
        whole = read_text("index, power.draw [W]\n0, 9.50 W\n0, 10.25 W")
        assert samples(whole, "power.draw") == [9.5, 10.25] and not whole.notes
        assert samples(read_text("index, power.draw [W]\n0, 9.50 W\n0, 10.2"), "power.draw") == [9.5, None]

    def test_processes(self):
        sink = read_text(
            "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-a, 31, /opt/a, b/python3, 4382 MiB\n"
            "GPU-a, 32, ./x, [N/A]\n"
        )
        assert samples(sink, "used_gpu_memory") == [4382, None]
        assert samples(sink, "used_gpu_memory", "process") == [31, 32]
        assert samples(sink, "used_gpu_memory", "instance") == ["/opt/a, b/python3", "./x"]
        assert set(samples(sink, "used_gpu_memory", "source")) == {"compute_apps"}


TOPOLOGY = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t32-63\t1\t\t2
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""


def test_topology():
    rows = [(r["place"], r.get("other"), r["attribute"], r["value"]) for r in read_text(TOPOLOGY).rows("topology")]
    assert rows == [
        ("GPU0", "GPU1", "link", "NV18"),
        ("GPU0", "NIC0", "link", "PIX"),
        ("GPU0", None, "cpu_affinity", "0-31"),
        ("GPU0", None, "numa_affinity", "0"),
        ("GPU1", "GPU0", "link", "NV18"),
        ("GPU1", "NIC0", "link", "SYS"),
        ("GPU1", None, "cpu_affinity", "32-63"),
        ("GPU1", None, "numa_affinity", "1"),
        ("GPU1", None, "numa_node", "2"),
        ("NIC0", "GPU0", "link", "PIX"),
        ("NIC0", "GPU1", "link", "SYS"),
        ("NIC0", None, "name", "mlx5_0"),
    ]


def test_a_matrix_that_is_cut_says_so():
    sink = read_text(TOPOLOGY[: TOPOLOGY.index("NV18\t X ") + 3])
    assert codes(sink) == {"last_value_cut", "topology_cut"}
    assert not [r for r in sink.rows("topology") if r["value"] == "NV1"]


XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<timestamp>Sun Nov 29 16:10:00 2026</timestamp><driver_version>580.1</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:18:00.0"><product_name>NVIDIA H200</product_name><uuid>GPU-a</uuid>
<mig_devices><mig_device><index>3</index><fb_memory_usage><used>19 MiB</used></fb_memory_usage></mig_device>
</mig_devices>
<utilization><gpu_util>N/A</gpu_util></utilization><fb_memory_usage><total>1024 MiB</total></fb_memory_usage>
<clocks_event_reasons><hw_slowdown>Active</hw_slowdown></clocks_event_reasons>
<processes><process_info><pid>7</pid><process_name>a b</process_name><used_memory>5 MiB</used_memory>
</process_info></processes>
</gpu></nvidia_smi_log>
"""


def test_xml():
    sink = read_text(XML)
    assert samples(sink, "utilization.gpu_util") == [None] and samples(sink, "fb_memory_usage.total") == [1024]
    assert samples(sink, "fb_memory_usage.used", "instance") == ["MIG 3"]
    assert samples(sink, "clocks_event_reasons.hw_slowdown") == [1]
    assert samples(sink, "processes.used_memory", "process") == [7]
    assert samples(sink, "processes.used_memory", "t_ns") == [FIRST]
    (device,) = sink.rows("devices")
    assert (device["name"], device["uuid"], device["memory_bytes"]) == ("NVIDIA H200", "GPU-a", 1 << 30)
    assert sink.facts.metadata["environment"]["driver_version"] == "580.1"


def test_xml_one_after_the_other():
    assert len(samples(read_text(XML + XML), "fb_memory_usage.total")) == 2


@pytest.mark.parametrize(
    "declared",
    [
        '[<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]',
        '[<!ENTITY a SYSTEM "file:///etc/hostname">]',
        '[<!ENTITY % p SYSTEM "http://127.0.0.1/x"> %p;]',
    ],
)
def test_xml_entities_are_not_expanded(declared):
    text = XML.replace('SYSTEM "nvsmi_device_v12.dtd"', declared).replace("NVIDIA H200", "&a;")
    with pytest.raises(SourceError):
        read_text(text)


def test_an_overview_with_processes():
    sink = read_text(
        "Sun Nov 29 16:10:00 2026\n"
        "+-----------+\n"
        "| NVIDIA-SMI 580.1    Driver Version: 580.1    CUDA Version: 13.0 |\n"
        "|   0  NVIDIA H200    On  |   00000000:18:00.0 Off |    0 |\n"
        "| N/A   41C    P0    141W /  700W |    4391MiB / 143771MiB |    N/A   Default |\n"
        "| Processes:  |\n"
        "|    0   N/A  N/A    3235      C   python3 -m x      4382MiB |\n"
        "|    1         77      C   old      1MiB |\n"
    )
    assert (
        samples(sink, "Pwr:Usage") == [141] and samples(sink, "GPU-Util") == [None] and samples(sink, "Fan") == [None]
    )
    assert samples(sink, "Memory-Usage", "t_ns") == [FIRST]
    assert samples(sink, "GPU Memory", "process") == [3235, 77]
    assert samples(sink, "GPU Memory", "instance") == ["python3 -m x", "old"]
    assert sink.facts.metadata["environment"]["cuda_version"] == "13.0"


class TestRecognition:
    @pytest.mark.parametrize(
        "text",
        [
            "step 1 loss 2\n" + DMON,  # the log of a job that ran it
            "timestamp,value\n2026/11/29 16:10:00,5\n",
            "#Entity   SMACT\nID\nGPU 0     0.95\n",
            "GPUId,TimeStampUs,Field,Values\n0,1718783836956328,power_usage_instant,71.20\n",
            "name,count\nx,1\n",
            "index,name\n0,a\n",
            "<?xml version='1.0'?><a/>",
            '{"time": "2021-12-06", "loss": 1}',
            "# a comment\n",
            "",
        ],
    )
    def test_other_files_are_not_claimed(self, tmp_path, text):
        (tmp_path / "x.txt").write_text(text)
        assert not SOURCE.recognise(TraceFile(tmp_path / "x.txt"))

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (" 16:10:00, 0, 136, 42, 41\n", "record without noheader"),
            ("2026/11/29 16:10:00.273, 0, NVIDIA H200, 0, 136.90\n", "record without noheader"),
            ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "found no GPU"),
        ],
    )
    def test_what_cannot_be_read_says_why(self, tmp_path, text, why):
        (tmp_path / "x.txt").write_text(text)
        with pytest.raises(SourceError, match=why):
            find_files([tmp_path / "x.txt"])

    def test_a_header_alone_has_no_reading(self):
        with pytest.raises(SourceError, match="without any reading"):
            read_text(DMON[: DMON.index("    0")])

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_files_of_windows(self, encoding):
        sink = read_text(QUERY.replace("\n", "\r\n").encode(encoding))
        assert samples(sink, "utilization.gpu") == [98, None]

    def test_packed(self):
        assert samples(read_text(gzip.compress(DMON.encode())), "pwr") == [630, 79]

    def test_many_views_in_one_file(self):
        text = (
            "# $ nvidia-smi dmon\n####\n"
            + DMON
            + "\n####\n# $ nvidia-smi topo -m\n####\n"
            + TOPOLOGY
            + "\nsomething\n"
            + QUERY
        )
        sink = read_text(text)
        assert samples(sink, "pwr") == [630, 79] and samples(sink, "utilization.gpu") == [98, None]
        assert len(sink.rows("topology")) == 12 and codes(sink) == {"other_lines", "local_time"}
