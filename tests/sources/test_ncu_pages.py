"""Pages of ncu: layouts, what stands around the tables, cut files, and what is refused."""

import pytest

from tests.support.ncu_writer import LONG, RULES, launch, line, metric, page, read_text, rule, wide
from traceanalyzer.errors import SourceError, UnknownFormatError
from traceanalyzer.ingestion import find_files
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.lines import cells_of
from traceanalyzer.sources.ncu_csv.nvtx import range_names
from traceanalyzer.sources.ncu_csv.recognise import looks_like_ncu

THROUGHPUT = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
PUSH_POP = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"


def profiles(sink, *columns):
    rows = [tuple(row.get(c) for c in columns) for row in sink.rows("kernel_profiles")]
    return [row[0] for row in rows] if len(columns) == 1 else rows


def codes(sink):
    return {code for code, _ in sink.notes}


def recognised(tmp_path, content, name="x.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return looks_like_ncu(TraceFile(path))


class TestLayouts:
    def test_details_with_short_metric_rows_and_full_rule_rows(self, tmp_path):
        text = page(
            metric("Duration", "us", "1.50"),
            metric("Compute (SM) Throughput", "%", "12.04"),
            metric("Memory Throughput", "%", "61.84"),
            metric("Memory Throughput", "Gbyte/s", "196.46", section="Memory Workload Analysis"),
            rule("SOLBottleneck", "OPT", "Memory is more heavily utilized than Compute: Look at DRAM."),
        )
        sink = read_text(tmp_path, text)
        (row,) = sink.rows("kernel_profiles")
        expected = {
            "id": 0,
            "launch": 0,
            "process": 7,
            "kernel": "gemm(float *, int)",
            "grid_x": 64,
            "grid_y": 4,
            "block_x": 128,
            "stream": 7,
            "device": 0,
            "compute_capability": "9.0",
            "duration_ns": 1500,
            "compute_pct": 12.04,
            "memory_pct": 61.84,
            "dram_bytes_per_s": 196.46e9,
            "nvidia_verdict_type": "OPT",
        }
        assert {k: row[k] for k in expected} == expected
        assert row["nvidia_verdict"].startswith("Memory is more heavily")
        assert [(r["rule"], r["section"]) for r in sink.rows("kernel_rules")] == [("SOLBottleneck", "SpeedOfLight")]
        assert len(sink.rows("kernel_metrics")) == 4
        assert sink.rows("processes") == [{"process": 7, "name": "python3"}]

    @pytest.mark.parametrize(
        ("label", "column"),
        [
            ("SOL SM", "compute_pct"),
            ("Compute (SM) [%]", "compute_pct"),
            ("SOL Memory", "memory_pct"),
            ("Memory [%]", "memory_pct"),
            (f"Compute (SM) Throughput ({THROUGHPUT})", "compute_pct"),
            (THROUGHPUT, "compute_pct"),
            (f"anything ({MEMORY})", "memory_pct"),
            ("Achieved Occupancy", "occupancy_pct"),
        ],
    )
    def test_labels_of_every_age_and_names(self, tmp_path, label, column):
        assert profiles(read_text(tmp_path, page(metric(label, "%", "12.04"))), column) == [12.04]

    def test_the_units_row_is_no_launch_and_may_be_missing(self, tmp_path):
        names = ["gpu__time_duration.sum", THROUGHPUT]
        text = wide(names, ["usecond", "%"], (launch(), ["84.480000", "36.88"]), (launch(1), ["1.5", "n/a"]))
        sink = read_text(tmp_path, text)
        assert profiles(sink, "id", "duration_ns", "compute_pct") == [(0, 84480, 36.88), (1, 1500, None)]
        bare = read_text(tmp_path, wide(names, None, (launch(), ["84.480000", "36.88"])))
        assert profiles(bare, "id", "duration_ns", "compute_pct") == [(0, None, 36.88)]
        assert "units_missing" in codes(bare)

    def test_the_old_layout_has_a_time_and_no_sizes(self, tmp_path):
        head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"]
        names = ["launch__grid_dim_x", "launch__grid_dim_y", "launch__grid_dim_z", "gpu__time_duration.sum"]
        who = [0, 7, "app", "127.0.0.1", "k", "2022-Nov-21 15:45:04", 1, 14]
        text = page(
            line([""] * 8 + ["block"] * 3 + ["nsecond"]),
            line([*who, "256", "2", "1", "99"]),
            header=[*head, *names],
        )
        assert profiles(read_text(tmp_path, text), "grid_x", "grid_y", "grid_z", "duration_ns") == [(256, 2, 1, 99)]

    def test_operations_and_bytes_of_several_counters(self, tmp_path):
        prefix = "sm__sass_thread_inst_executed_op_"
        counts = {f"{prefix}fadd_pred_on.sum": 5, f"{prefix}ffma_pred_on.sum": 10, f"{prefix}dmul_pred_on.sum": 1}
        counts |= {"dram__bytes_read.sum": 100, "dram__bytes_write.sum": 20}
        units = ["inst"] * 3 + ["Kbyte", "byte"]
        text = wide(list(counts), units, (launch(), [str(v) for v in counts.values()]))
        assert profiles(read_text(tmp_path, text), "flop", "dram_bytes") == [(26.0, 100_020)]

    @pytest.mark.parametrize(
        ("unit", "fma", "mul", "cycles", "flop"),
        [
            ("smsp", "12704.388694", "6.203315", "676139.151515", 2 * 2**33 + 2**22),
            ("sm", "12704.388694", "6.203315", "676139.151515", 2 * 2**33 + 2**22),
            ("smsp", "12704.39", "0", "676139.15", 17179870912),  # 8 digits: off by 1e-7
            ("smsp", "0.229893", "0", "4454.242424", 2 * 1024),
            ("smsp", "0.23", "0", "4454.24", None),  # off by up to 2 %
            ("smsp", "0", "0", "55324.060606", 0),
            ("smsp", "0.000000", "0.000000", "55324.060606", 0),
            ("smsp", "1.5", "0.5", None, None),
        ],
    )
    def test_operations_a_cycle_times_elapsed_cycles(self, tmp_path, unit, fma, mul, cycles, flop):
        values = {
            f"{unit}__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": fma,
            f"{unit}__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": mul,
            f"{unit}__cycles_elapsed.max": "999",
        }
        if cycles is not None:
            values[f"{unit}__cycles_elapsed.avg"] = cycles
        text = wide(list(values), ["inst/cycle"] * 2 + ["cycle"] * 2, (launch(), list(values.values())))
        assert profiles(read_text(tmp_path, text), "flop") == [flop]

    @pytest.mark.parametrize(
        ("items", "expected"),
        [
            ([("Pipe Utilization (% of active cycles)", "Tensor (All)", "94.72")], 94.72),
            ([("Pipe Utilization (% of elapsed cycles)", "Tensor (All)", "90.02")], 90.02),
            ([("Compute Throughput Breakdown", "SM: Pipe Tensor Cycles Active", "90.02")], 90.02),
            (
                [
                    ("Pipe Utilization (% of peak instructions executed over active cycles)", "Tensor (All)", "2.96"),
                    ("Pipe Utilization (% of elapsed cycles)", "Tensor (All)", "90.02"),
                    ("Pipe Utilization (% of active cycles)", "Tensor (FP)", "93.00"),
                    ("Pipe Utilization (% of active cycles)", "Tensor (All)", "94.72"),
                ],
                94.72,
            ),
            ([("", "Tensor (All)", "94.72")], None),
        ],
    )
    def test_the_tensor_pipe_of_pages_with_all_details(self, tmp_path, items, expected):
        head = list(RULES)
        head.insert(head.index("Metric Name"), "Body Item Label")
        section = "Compute Workload Analysis"
        rows = [line([*launch(), section, item, name, "%", value, ""]) for item, name, value in items]
        assert profiles(read_text(tmp_path, page(*rows, header=head)), "tensor_pct") == [expected]

    def test_summaries_are_no_launches(self, tmp_path):
        head = ["Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC"]
        head += ["Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"]
        who = ["7", "app", "127.0.0.1", "k", "(1, 1, 1)", "(3984, 4096, 1)", "0", "7.5", "10", "SOL"]
        text = page(
            line([*who, "Duration", "ms", "1.000000", "3.500000", "2.250000"]),
            line([*who, "launch__x", "", "", "", "1,024"]),
            line([*who, "launch__y", "", "", "", "1,024,000"]),
            header=head,
        )
        sink = read_text(tmp_path, text)
        rows = [(r["kernel"], r["invocations"], r["minimum"], r["average"]) for r in sink.rows("kernel_summaries")]
        assert rows == [("k", 10, 1e6, 2.25e6), ("k", 10, None, 1024.0), ("k", 10, None, 1_024_000.0)]
        assert not sink.rows("kernel_profiles") and "no_launches" in codes(sink)

    def test_numbers_that_do_not_fit_are_null_and_counted(self, tmp_path):
        head = ["Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC"]
        head += ["Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"]
        row = ["7", "app", "127.0.0.1", "k", "(1, 1, 1)", "(2, 1, 1)", "3000000000", "7.5", "9" * 20]
        sink = read_text(tmp_path, page(line([*row, "SOL", "Duration", "ms", "1", "3", "2"]), header=head))
        (found,) = sink.rows("kernel_summaries")
        assert (found["device"], found["invocations"], found["average"]) == (None, None, 2e6)
        assert "number_out_of_range" in codes(sink)

    @pytest.mark.parametrize("header", [RULES[1:], ["id", *RULES[1:]], [*RULES[1:], "ID"]])
    def test_rows_without_an_id_are_no_launches(self, tmp_path, header):
        sink = read_text(
            tmp_path, page(metric("Duration", "ns", "10"), metric("Duration", "ns", "\u00b2"), header=header)
        )
        assert not sink.rows("kernel_profiles") and "no_launches" in codes(sink)

    @pytest.mark.parametrize("digits", ["9" * 19, "9" * 5000, "\u0663"])
    def test_an_id_that_is_no_number_is_no_launch(self, tmp_path, digits):
        grid = f"({digits}, 1, 1)"
        sink = read_text(
            tmp_path, page(metric("Duration", "ns", "10", grid=grid), metric("Duration", "ns", "11", id_=digits))
        )
        assert profiles(sink, "id", "grid_x", "duration_ns") == [(0, None, 10)]

    def test_the_summary_of_ranges_has_no_process(self, tmp_path):
        head = ["Domain", "Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg", "Kernel Name", "Block Size"]
        head += ["Grid Size", "Device Id", "Invocations", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"]
        cell = ' "run:none:none:RGB:0xff00ff00:ASCII:run"  "in:none:none:none:none:none:none" '
        text = page(line(["mine", cell, "k", "256", "16384", "0", "1", "m", "", "1", "1", "1"]), header=head)
        (row,) = read_text(tmp_path, text).rows("kernel_summaries")
        assert (row["nvtx_ranges"], row["grid"], row["device"]) == ("mine:run > mine:in", "16384", 0)

    def test_ranges_hold_quotes_and_colons(self):
        cell = '12  "<default domain>:a:b:none:none:RGB:0xff:ASCII:a:b"  "lib:x:none:none:none:none:none:none" '
        assert range_names(cell, PUSH_POP) == ["a:b", "lib:x"]
        short = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value"
        assert range_names(' "0:<default domain>:conv:none:none" ', short) == ["conv"]


class TestAroundTheTables:
    def test_text_before_inside_and_after(self, tmp_path):
        table = page(metric("Duration", "ns", "10"), metric("Duration", "ns", "11", id_=1)).splitlines()
        text = "\n".join(
            [
                '==PROF== Profiling "k" - 0: 0%....100% - 9 passes',
                'tensor([1.5, 2.5], "a, b")',
                '"quoted", he said, "twice"',
                "done" + table[0],  # the program's last line without its end
                table[1],
                "==PROF== Disconnected from process 7",
                "1,2,3",
                '"0","not a row"',
                table[2],
                "bye, bye",
            ]
        )
        sink = read_text(tmp_path, text)
        assert profiles(sink, "id", "duration_ns") == [(0, 10), (1, 11)]

    def test_a_row_behind_unfinished_output_is_read(self, tmp_path):
        rows = [metric("Duration", "ns", str(10 + k), id_=k) for k in range(4)]
        rows[1] = "epoch 3: 45%" + rows[1]
        rows[2] = 'said "hi"' + rows[2] + "==PROF== x"
        rows[3] = "{" + rule("SOLBottleneck", "OPT", "one\ntwo", id_=3) + "\nbye\n" + rows[3] + "done, 1"
        sink = read_text(tmp_path, page(*rows))
        assert profiles(sink, "id", "duration_ns") == [(0, 10), (1, 11), (2, 12), (3, 13)]
        assert profiles(sink, "nvidia_verdict") == [None, None, None, "one\ntwo"]
        assert len(sink.rows("kernel_rules")) == 1 and not codes(sink) and sink.facts.whole

    def test_a_wide_row_and_a_summary_behind_unfinished_output_are_read(self, tmp_path):
        names = ["gpu__time_duration.sum", "z__last"]
        text = wide(names, ["ns", ""], (launch(0), ["100", "7"]), (launch(1), ["200", "8"]))
        sink = read_text(tmp_path, text.replace('"1","7"', '45%"1","7"') + "bye")
        assert profiles(sink, "id", "duration_ns") == [(0, 100), (1, 200)] and not codes(sink)
        head = ["Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC"]
        head += ["Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"]
        row = ["7", "app", "127.0.0.1", "k", "(1, 1, 1)", "(2, 1, 1)", "0", "7.5", "10", "S", "m", "", "1", "2", "1.5"]
        sink = read_text(tmp_path, page("step 1 " + line(row), '"odd', line(row), header=head))
        assert [r["average"] for r in sink.rows("kernel_summaries")] == [1.5, 1.5] and codes(sink) == {"no_launches"}

    def test_a_row_behind_unfinished_output_whose_cells_do_not_fit_is_damaged(self, tmp_path):
        torn = "epoch 3: 45%" + line(launch(1)[:8])
        sink = read_text(tmp_path, page(metric("Duration", "ns", "10"), torn, metric("Duration", "ns", "20", id_=2)))
        assert profiles(sink, "id", "duration_ns") == [(0, 10), (2, 20)]
        assert codes(sink) == {"rows_damaged"} and sum(sink.notes.values()) == 1

    @pytest.mark.parametrize(
        "output",
        [
            '"hello',
            '"hello\nloss, 3',
            '["1","2","3","4"]',
            'x = ["1","2","3","4", "5"',
            '"open" and "odd',
            '{"a": "1","2',
        ],
    )
    def test_quotes_in_the_programs_output_are_no_damaged_rows(self, tmp_path, output):
        table = page(metric("Duration", "ns", "10"), output, metric("Duration", "ns", "11", id_=1))
        for text in (f"{output}\n{table}", f"{table}{output}", f"{table}{output}\n"):
            sink = read_text(tmp_path, text)
            assert profiles(sink, "id", "duration_ns") == [(0, 10), (1, 11)]
            assert not codes(sink) and sink.facts.whole

    def test_appended_runs_repeat_ids(self, tmp_path):
        text = page(metric("Duration", "ns", "10")) + "epoch 2\n" + page(metric("Duration", "ns", "20"))
        assert profiles(read_text(tmp_path, text), "launch", "table_number", "id", "duration_ns") == [
            (0, 0, 0, 10),
            (1, 1, 0, 20),
        ]

    def test_processes_share_ids(self, tmp_path):
        rows = [metric("Duration", "ns", str(pid), pid=pid) for pid in (7, 8, 7, 8)]
        assert profiles(read_text(tmp_path, page(*rows)), "process", "duration_ns") == [(7, 7), (8, 8)]

    def test_session_and_source_pages(self, tmp_path):
        text = (
            'Session Info\n"Session Attribute","Value"\n"Host Name","node0"\n'
            '"Nsight Compute Target","2025.3.1.0 (build 1)"\n\nDevice Attributes\n"Device Attribute","Device 0"\n'
            '"display_name","NVIDIA H200"\n"multiprocessor_count","132"\n"Kernel Name","f(int)",\n'
            '"Address","Source","Samples"\n"0x7f","MOV R1, c[0x0]","35"\n'
        )
        sink = read_text(tmp_path, text + page(metric("Duration", "ns", "10")))
        assert (sink.facts.host, sink.facts.tool_version) == ("node0", "2025.3.1.0")
        assert [(d["device"], d["name"], d["multiprocessors"]) for d in sink.rows("devices")] == [
            (0, "NVIDIA H200", 132)
        ]
        assert profiles(sink, "duration_ns") == [10]

    def test_a_header_alone_is_an_empty_file(self, tmp_path):
        sink = read_text(tmp_path, page())
        assert not sink.rows("kernel_profiles") and codes(sink) == {"no_launches"} and sink.facts.whole

    def test_a_kernel_name_and_a_rule_text_over_lines(self, tmp_path):
        name = 'k<"a,b">(int {x})' + "y" * 5000
        text = page(
            metric("Duration", "ns", "10", kernel=name), rule("SOLBottleneck", "INF", "one\ntwo, three", kernel=name)
        )
        assert profiles(read_text(tmp_path, text), "kernel", "nvidia_verdict") == [(name, "one\ntwo, three")]

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_marks_of_byte_order_and_windows_lines(self, tmp_path, encoding):
        text = page(metric("Duration", "ns", "10", kernel="größe(int)")).replace("\n", "\r\n").encode(encoding)
        assert profiles(read_text(tmp_path, text), "kernel", "duration_ns") == [("größe(int)", 10)]
        assert recognised(tmp_path, text)

    def test_pages_that_were_saved_without_quotes(self, tmp_path):
        text = ",".join(LONG) + '\n0,7,app,127.0.0.1,k,1,7,"(1, 1, 1)","(2, 1, 1)",0,9.0,SOL,Duration,ns,12\n'
        assert profiles(read_text(tmp_path, text), "id", "grid_x", "duration_ns") == [(0, 2, 12)]
        assert recognised(tmp_path, text)


class TestCutFiles:
    def whole(self):
        rows = [metric("Duration", "ns", str(100 + k), id_=k) for k in range(5)]
        return page(*rows)

    def test_a_long_page_cut_anywhere_keeps_the_whole_rows(self, tmp_path):
        text = self.whole()
        header = text.index("\n") + 1
        for end in range(header, len(text) + 1):
            sink = read_text(tmp_path, text[:end])
            expected = [100 + k for k in range(5)][: text[:end].count("\n") - 1]
            found = profiles(sink, "duration_ns")
            assert found[: len(expected)] == expected and len(found) <= len(expected) + 1
            assert found == [100 + k for k in range(len(found))]
            rest = text[:end].rpartition("\n")[2]
            if len(found) > len(expected) or not rest:
                assert sink.facts.whole
            elif rest.count('","') > 1:
                assert not sink.facts.whole and "truncated" in codes(sink)

    def test_a_wide_page_cut_anywhere_keeps_the_whole_launches(self, tmp_path):
        names = ["gpu__time_duration.sum", THROUGHPUT, "z__last"]
        launches = [(launch(k), [str(100 + k), "12.34", "7"]) for k in range(4)]
        text = wide(names, ["ns", "%", ""], *launches)
        start = [k for k, c in enumerate(text) if c == "\n"][1] + 1
        for end in range(start, len(text) + 1):
            sink = read_text(tmp_path, text[:end])
            lines = text[:end].count("\n") - 2
            found = profiles(sink, "duration_ns")
            assert found in ([100 + k for k in range(lines)], [100 + k for k in range(lines + 1)])
            rest = text[:end].rpartition("\n")[2]
            if len(found) > lines or not rest:
                assert sink.facts.whole
            elif rest.count('","') > 1:
                assert not sink.facts.whole and "truncated" in codes(sink)

    def test_a_cut_row_is_said(self, tmp_path):
        sink = read_text(tmp_path, self.whole()[:-30])
        assert profiles(sink, "duration_ns")[:4] == [100, 101, 102, 103]
        assert codes(sink) == {"truncated"} and not sink.facts.whole


class TestRecognition:
    @pytest.mark.parametrize(
        "text",
        [
            "city,people\nOslo,700000\n",
            "ranks,throughput\n1,100\n",
            "ID,Name\n1,x\n",
            "",
        ],
    )
    def test_other_tables_are_not_claimed(self, tmp_path, text):
        assert not recognised(tmp_path, text)
        with pytest.raises(UnknownFormatError):
            find_files([tmp_path / "x.csv"])

    @pytest.mark.parametrize(
        ("text", "source"),
        [
            ("timestamp, name, utilization.gpu [%]\n2024/01/01 00:00:00.000, H100, 98 %\n", "nvidia_smi"),
            ("# gpu   sm   mem\n# Idx    %    %\n    0    98    40\n", "nvidia_smi"),
            ("#Entity   SMACT\nID\nGPU 0     0.95\n", "dcgm"),
        ],
    )
    def test_telemetry_is_not_claimed(self, tmp_path, text, source):
        assert not recognised(tmp_path, text)
        assert [f.source.name for f in find_files([tmp_path / "x.csv"])] == [source]

    @pytest.mark.parametrize("progress", ["==PROF== Connected to process 7 (/usr/bin/python3)\n", ""])
    def test_a_table_far_behind_the_programs_output(self, tmp_path, progress):
        text = progress + "loss 0.1, 0.2\n" * 20_000 + page(metric("Duration", "ns", "10"))
        assert recognised(tmp_path, text)
        assert profiles(read_text(tmp_path, text), "duration_ns") == [10]

    def test_long_output_without_a_table_is_not_claimed(self, tmp_path):
        assert not recognised(tmp_path, "loss 0.1, 0.2\n" * 20_000)
        assert not recognised(tmp_path, "==PROF== Connected to process 7 (x)\n" + "loss 0.1\n" * 20_000)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("[7] python3@127.0.0.1\n  k(int), Context 1\n    Section: GPU\n    ------\n", "page of ncu for people"),
            ("==PROF== Connected to process 7 (x)\nloss 0.1\n", "only the progress"),
            ("gpu__time_duration.sum,launch__block_size\nmsecond,-\n17.6,1024\n", "without ID and kernel name"),
        ],
    )
    def test_other_output_of_ncu_is_refused_with_the_command_that_helps(self, tmp_path, text, why):
        path = tmp_path / "x.txt"
        path.write_text(text)
        with pytest.raises(SourceError, match=why) as error:
            find_files([path])
        assert "ncu --import REPORT --csv --page raw" in str(error.value) and "\n" not in str(error.value)

    def test_folders_skip_what_cannot_be_read(self, tmp_path):
        (tmp_path / "details.txt").write_text("[7] python3@127.0.0.1\n  k\n    Section: GPU\n    ------\n")
        (tmp_path / "raw.csv").write_text(page(metric("Duration", "ns", "10")))
        assert [f.file.name for f in find_files([tmp_path])] == ["raw.csv"]
        assert RULES


def test_a_row_with_a_lone_end_of_a_line_in_a_bare_cell_has_no_cells():
    assert cells_of('"1",a\rb') == []
