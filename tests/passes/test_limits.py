"""What limits kernels: rules, names, rooflines, peaks, and what is made of ncu, samples and shapes together."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import traceanalyzer
from tests.support.ncu_writer import launch, wide
from tests.support.real_traces import MISSING, PUBLIC, TRACES, opened, rows
from tests.support.store_builder import Capture, store_of
from traceanalyzer import hardware
from traceanalyzer.errors import UsageError
from traceanalyzer.ingestion import ingest
from traceanalyzer.passes.limits.estimates import Ideal, limit_of_estimate
from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.limits.kernel_families import family_of, tensor_cores
from traceanalyzer.passes.limits.kernel_names import demangled, function_name, same_name
from traceanalyzer.passes.limits.limit import by_use
from traceanalyzer.passes.limits.profile import Extra, limit_of
from traceanalyzer.passes.limits.roofline import roofline_of
from traceanalyzer.passes.limits.sol import SolClass, sol_class
from traceanalyzer.schema.kernel_tables import KERNEL_PROFILES
from traceanalyzer.schema.kinds import EventKind

COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
TIME = "gpu__time_duration.sum"
EMPTY = dict.fromkeys(KERNEL_PROFILES.by_name)


def profile(**known):
    return EMPTY | known


@pytest.mark.parametrize(
    ("known", "limit", "words"),
    [
        ({"compute_pct": 92, "memory_pct": 50}, "compute_bound", "compute 92 %: nothing left to gain in this kernel"),
        ({"compute_pct": 85, "memory_pct": 85}, "compute_bound", "compute 85 %"),
        ({"compute_pct": 90, "memory_pct": 60, "tensor_pct": 95}, "compute_bound", "tensor pipe 95 %"),
        ({"compute_pct": 30, "memory_pct": 85}, "memory_bound", "memory 85 % and compute 30 %: access pattern, fusion"),
        (
            {"compute_pct": 17, "memory_pct": 88.5, "dram_pct": 88.5, "l2_pct": 92},
            "memory_bound",
            "memory 88 % (DRAM 88 %) and compute 17 %: fewer bytes",
        ),
        (
            {"compute_pct": 10, "memory_pct": 96, "dram_pct": 21, "l2_pct": 96, "l1_pct": 40},
            "memory_bound",
            "(L2 96 %)",
        ),
        ({"compute_pct": 10, "memory_pct": 70, "dram_pct": 21, "l1_pct": 70}, "memory_bound", "(L1 70 %)"),
        ({"compute_pct": 75, "memory_pct": 40}, "compute_bound", "compute 75 % and memory 40 %"),
        ({"compute_pct": 65, "memory_pct": 70}, "balanced", "less than 10 points apart"),
        ({"compute_pct": 5, "memory_pct": 5, "waves_per_multiprocessor": 0.25}, "latency_bound", "0.25 of a wave"),
        (
            {
                "compute_pct": 40,
                "memory_pct": 20,
                "waves_per_multiprocessor": 1.5,
                "occupancy_pct": 50,
                "theoretical_occupancy_pct": 100,
            },
            "latency_bound",
            "tail: 1.50 waves, so the last one takes 50 % of the time",
        ),
        (
            {
                "compute_pct": 40,
                "memory_pct": 20,
                "waves_per_multiprocessor": 9,
                "theoretical_occupancy_pct": 50,
                "registers_per_thread": 128,
            },
            "latency_bound",
            "low occupancy: 50 % at most (under 80 %), with 128 registers a thread",
        ),
        (
            {
                "compute_pct": 40,
                "memory_pct": 20,
                "waves_per_multiprocessor": 9,
                "theoretical_occupancy_pct": 100,
                "occupancy_pct": 70,
            },
            "latency_bound",
            "low occupancy: 70 % of 100 % achieved",
        ),
        (
            {
                "compute_pct": 40,
                "memory_pct": 20,
                "waves_per_multiprocessor": 9,
                "theoretical_occupancy_pct": 100,
                "occupancy_pct": 95,
            },
            "latency_bound",
            "dependency: occupancy 95 % is enough",
        ),
        ({"compute_pct": 40, "memory_pct": None}, None, "not in the file: memory throughput, waves a multiprocessor"),
    ],
)
def test_reasons_of_profiled_kernels(known, limit, words):
    one = profile(**known)
    found = limit_of(one, sol_class(one["compute_pct"], one["memory_pct"], one["waves_per_multiprocessor"]))
    assert (found.limit and found.limit.value) == limit
    assert words in found.reason


def test_a_stated_verdict_without_figures_says_what_it_leaves_open():
    assert limit_of(profile(), SolClass.HIGH_THROUGHPUT).limit is None
    assert limit_of(profile(), SolClass.HIGH_MEMORY).limit == "memory_bound"
    assert limit_of(profile(), SolClass.SMALL_GRID).limit == "latency_bound"


@pytest.mark.parametrize(
    ("compute", "memory", "limit"),
    [(80, 79, "compute_bound"), (79, 80, "memory_bound"), (59, 59, "latency_bound"), (65, 70, "balanced")],
)
def test_use_of_two_units(compute, memory, limit):
    assert by_use(compute, memory, "issue", "DRAM").limit == limit


def test_roofline_by_hand():
    one = profile(duration_ns=1000, dram_bytes=2_000_000, flop=4_000_000.0)
    metrics = {
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 16896.0,
        "sm__cycles_elapsed.avg.per_second": 1e9,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": 3.0,
        "dram__bytes.sum.peak_sustained": 4000.0,
        "dram__cycles_elapsed.avg.per_second": 1e9,
    }
    found = roofline_of(one, metrics)
    # Peak 16896 x 2 x 1e9 = 33.792e12, memory 4e12: the ridge is 8.448; 2 operations a byte are under the memory's.
    assert (found.flop_per_s, found.intensity, found.ridge) == (4e12, 2.0, 8.448)
    assert (found.roof_flop_per_s, found.reached) == (8e12, 0.5)
    assert found.tensor_flop is None and found.dram_bytes == 2_000_000
    tensor = metrics | {
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum": 80_000_000.0,
        "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum": 80_000_000.0,
        "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained_elapsed.per_second": 100e12,
        "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained_elapsed.per_second": 60e12,
    }
    found = roofline_of(one, tensor)
    assert (found.tensor_flop, found.flop_per_s, found.intensity) == (80e6, 80e12, 40.0)
    assert (found.ridge, found.roof_flop_per_s, found.reached) == (25.0, 100e12, 0.8)
    double = metrics | {
        "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum.per_cycle_elapsed": 9.0,
        "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained": 8448.0,
    }
    assert roofline_of(one, double).ridge == 8448 * 2 / 4000
    rate = profile(duration_ns=1000, dram_bytes_per_s=2e12, flop=4_000_000.0)
    assert roofline_of(rate, metrics).intensity == 2.0
    assert roofline_of(profile(duration_ns=1000), metrics).reached is None
    assert roofline_of(profile(), {}).flop_per_s is None


KIN = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float, "
    "c10::BFloat16 const*, c10::BFloat16*)",
    "void at::native::<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, (bool)0>(int, T2, const T1 *)",
    "void at::<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, 0>(int, T2, const T1 *, T1 *)",
    "layer_norm/void at::<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, 0>(int, T2, const T1 *, T1 *)",
)


def test_names_of_torch_nsys_and_ncu_are_the_same():
    assert len({same_name(name) for name in KIN}) == 1
    assert {function_name(name) for name in KIN} == {"vectorized_layer_norm_kernel"}
    lambdas = (
        "void f<8, Gelu(Base&, Type)::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >()",
        "void f<(int)8, Gelu(Base &, Type)::[lambda() (instance 2)]::operator ()() const::[lambda(float) (instance 1)],"
        " std::array<char *, (unsigned long)2>>(int, T2)",
    )
    assert same_name(lambdas[0]) == same_name(lambdas[1])
    different = (
        KIN[1].replace("(bool)0", "(bool)1"),
        lambdas[1].replace("instance 2", "instance 3"),
        "gemm<4>",
        "gemm<8>",
    )
    assert len({same_name(name) for name in (*different, KIN[0], lambdas[0])}) == 6
    assert (
        same_name("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT") == "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    )
    assert function_name(same_name("triton_poi_fused_add_0")) == "triton_poi_fused_add_0"
    hostile = "f(" * 30_000
    assert same_name(hostile) == hostile
    for one, two in (
        ("k<a/x>", "k<b/x>"),
        ("k<{lambda(float)#1}>", "k<{lambda(double)#1}>"),
        ("k<void (int)>", "k<void (float)>"),
        ("k<sizeof(int)>", "k<sizeof(char)>"),
        ("k<(1)>", "k<(2)>"),
        (
            "k<[lambda(int) (instance 1)], B, [lambda() (instance 2)]>",
            "k<[lambda(int) (instance 1)], C, [lambda() (instance 2)]>",
        ),
    ):
        assert same_name(one) != same_name(two)


def test_mangled_names_are_read():
    mangled = (
        "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_11FillFunctorIN3c108BFloat16EEESt5arrayIPcLm1EEEEviT0_T1_"
    )
    assert demangled(mangled).startswith("void at::native::vectorized_elementwise_kernel<8,")
    assert same_name(mangled) == same_name(
        "void at::vectorized_elementwise_kernel<8, at::FillFunctor<c10::BFloat16>, std::array<char *, 1>>(int, T2, T3)"
    )
    assert demangled("_Z") == "_Z" and demangled("gemm") == "gemm"


@pytest.mark.skipif(not TRACES.exists(), reason=MISSING)
@pytest.mark.parametrize("trace", ["torch.json.gz", "nsys.sqlite.gz"])
def test_every_kernel_of_a_profile_is_found_on_the_timeline_of_the_same_job(trace):
    with opened(TRACES / "ncu/training_steps/raw.csv.gz") as traces:
        profiled = {same_name(row["kernel"]) for row in traces.throughput(top=0).kernels.rows()}
    with opened(TRACES / f"mem_leak/{trace}") as traces:
        timeline = {same_name(row["kernel"]) for row in traces.kernels(top=0).kernels.rows()}
    assert profiled == timeline and len(timeline) == 12


@pytest.mark.parametrize(
    ("kernel", "family", "tensor"),
    [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "matmul", True),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", "matmul", True),
        ("ampere_sgemm_128x128_tn", "matmul", False),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)", "matmul", False),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)", "matmul", True),
        ("void gemv2T_kernel_val<int, int, float>()", "matmul", False),
        ("matmul_kernel(float *, float *)", "matmul", None),
        ("Cijk_Ailk_Bljk_BBS_BH_MT32x32x64_MI16x16x16x1_SN", "matmul", True),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "convolution", False),
        ("sm86_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x32", "convolution", True),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128>>", "attention", True),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26", "attention", True),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>", "elementwise", False),
        ("triton_poi_fused_embedding_dense_backward_55", "elementwise", False),
        ("triton_per_fused_native_layer_norm_3", "normalization", False),
        ("triton_red_fused__log_softmax_40", "softmax", False),
        ("triton_red_fused_sum_2", "reduction", False),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>()", "softmax", False),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>>", "copy", False),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>", "optimizer", False),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", False),
        ("SubTensorOpWithScalar1d", "other", None),
    ],
)
def test_families_and_tensor_cores_by_name(kernel, family, tensor):
    assert family_of(kernel) == family
    assert tensor_cores(kernel, Family(family))[0] is tensor


def test_estimated_limits():
    assert limit_of_estimate(Ideal(1_000_000, 1, 700_000, 100_000)).limit == "compute_bound"
    assert limit_of_estimate(Ideal(1_000_000, 1, 20_000, 810_000)).limit == "memory_bound"
    assert limit_of_estimate(Ideal(1_000_000, 1, 20_000, 640_000)).limit is None
    assert limit_of_estimate(Ideal(5_000, 2, 20, 100)).limit == "latency_bound"
    assert limit_of_estimate(Ideal(1_000_000, 1, 20_000, 1_250_000)).limit is None  # caches serve it
    assert limit_of_estimate(Ideal(1_000_000, 1, 1_240_000, 100_000)).limit is None  # Winograd
    unknown = limit_of_estimate(Ideal(1_000_000, 1, None, None))
    assert unknown.limit is None and "no peaks" in unknown.reason
    assert limit_of_estimate(Ideal(1_000_000, 1, None, 900_000)).limit == "memory_bound"
    assert "estimated" in limit_of_estimate(Ideal(1_000_000, 1, 20_000, 640_000)).reason


def matmul(capture, at, ns, number, kernel="nvjet_tst_NNT", dims=((8, 4), (4, 2)), op="aten::mm"):
    """An operator at an instant that launches one kernel of a length."""
    capture.operator(op, at, at + 50, [list(d) for d in dims], ["c10::BFloat16"] * len(dims))
    return capture.launch(at + 10, at + 20, number).kernel(at + 100, at + 100 + ns, number, name=kernel)


def ask(tmp_path, question, *captures, **selection):
    store = store_of(tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb", *captures)
    with traceanalyzer.open(store) as traces:
        return getattr(traces, question)(**selection)


def test_operators_against_the_peaks_of_their_device(tmp_path):
    # 2 x 8192 x 4096 x 4096 operations at 989e12 a second take 277,926 ns.
    dims = ((8192, 4096), (4096, 4096))
    capture = matmul(matmul(Capture().gpu("NVIDIA H200"), 0, 370_568, 1, dims=dims), 400_000, 370_568, 2, dims=dims)
    answer = ask(tmp_path, "throughput", capture)
    (row,) = answer.operators.rows()
    assert (row["op"], row["calls"], row["kernels"], row["total_ns"]) == ("aten::mm", 2, 2, 741_136)
    assert row["flop"] == 2 * 8192 * 4096 * 4096 and row["bytes"] == 2 * (8192 * 4096 * 2 + 4096 * 4096)
    assert row["tflops"] == pytest.approx(2 * 8192 * 4096 * 4096 / 370_568 / 1e3)
    assert row["compute_share"] == pytest.approx(0.75, rel=1e-4) and row["class"] == "compute_bound"
    assert row["ridge"] == pytest.approx(989e12 / 4800e9) and row["intensity"] == row["flop"] / row["bytes"]
    assert (row["peak"], row["share"], row["shapes"]) == ("bf16", 1.0, "8192x4096, 4096x4096")
    (kernel,) = ask(tmp_path, "kernels", capture).kernels.rows()
    assert (kernel["class"], kernel["class_source"], kernel["family"]) == ("compute_bound", "estimated", "matmul")
    assert kernel["compute_pct"] == pytest.approx(75, rel=1e-4) and kernel["tensor_cores"] is True
    assert kernel["gap_before_ns"] == 400_100 - (100 + 370_568)


def test_without_known_peaks_nothing_is_guessed_and_a_file_tells_them(tmp_path):
    capture = matmul(Capture().gpu("Some GPU"), 0, 1000, 1, dims=((80, 40), (40, 20)))
    answer = ask(tmp_path, "throughput", capture)
    (row,) = answer.operators.rows()
    assert (row["class"], row["compute_share"], row["memory_share"]) == (None, None, None)
    assert row["tflops"] == pytest.approx(0.128) and "no peaks of Some GPU are known" in answer.warnings[-1]
    peaks = tmp_path / "peaks.toml"
    peaks.write_text("[[gpu]]\nmemory_gbs = 100\ntflops = { fp16 = 0.16 }\n")
    answer = ask(tmp_path, "throughput", capture, peaks=str(peaks))
    (row,) = answer.operators.rows()
    assert row["compute_share"] == pytest.approx(0.8) and row["class"] == "compute_bound"
    assert row["memory_share"] == pytest.approx(2 * (80 * 40 + 40 * 20 + 80 * 20) / 1000 / 100)
    assert [(r["peak"], r["value"], r["source"]) for r in answer.peaks.rows()] == [
        ("memory", 100.0, "--peaks: peaks.toml"),
        ("bf16", 0.16, "--peaks: peaks.toml"),
    ]


def test_peaks_by_attributes_of_the_device_come_before_the_data_sheet(tmp_path):
    stated = {"multiprocessors": 132, "clock_rate_hz": 1_980_000_000, "compute_capability": "9.0"}
    capture = Capture().gpu("NVIDIA H200", memory_bandwidth_bytes_per_s=4_814_304_000_000, **stated)
    answer = ask(tmp_path, "throughput", matmul(capture, 0, 1000, 1))
    peaks = {row["peak"]: (row["value"], row["source"]) for row in answer.peaks.rows()}
    assert peaks["memory"] == (4814.304, "torch: memory bandwidth of the device")
    assert peaks["fp32"][0] == pytest.approx(132 * 128 * 2 * 1.98e9 / 1e12) and "128 FP32 lanes" in peaks["fp32"][1]
    assert peaks["bf16"] == (989.0, "NVIDIA H200 datasheet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "not TOML"),
        ("", "no [[gpu]]"),
        ("gpu = 3", "no [[gpu]]"),
        ("[[gpu]]\ntflops = 3\n", "takes fp64, fp32"),
        ("[[gpu]]\ntflops = { fp7 = 3 }\n", "not fp7"),
        ("[[gpu]]\nmemory_gb = 900\n", "not memory_gb"),
        ("[[gpu]]\nname = 'V100'\nmemory_gbs = 900\n", "not name"),
        ("[[gpu]]\nlink_gbs = 3\n", "neither memory_gbs nor tflops"),
        ("[[gpu]]\nmemory_gbs = 3\nnames = ['a']\n", "is no text"),
        ("[[gpu]]\nmemory_gbs = " + "9" * 5000, "not TOML"),
        ("x = " + "[" * 9000, "not TOML"),
        ("[[gpu]]\nmemory_gbs = 1\nnames = 'a{99999999999999999999}'\n", "no regular expression"),
        ("#" * 20_000, "more than 16,384 bytes"),
        ("[[gpu]]\nmemory_gbs = -1\n", "memory_gbs = -1 is no peak"),
        ("[[gpu]]\nmemory_gbs = 'fast'\n", "is no peak"),
        ("[[gpu]]\nnames = '('\nmemory_gbs = 1\n", "no regular expression"),
    ],
)
def test_files_of_peaks_that_cannot_be_read_are_refused(tmp_path, text, words):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        hardware.read_peaks(tmp_path / "p.toml")
    assert words in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(UsageError, match="No such file"):
        hardware.read_peaks(tmp_path / "none.toml")


def test_every_peak_of_the_table_has_a_source_and_plausible_figures():
    entries = tomllib.loads((Path(hardware.__file__).parent / "data/hardware.toml").read_text())["gpu"]
    for entry in entries:
        assert entry["source"] and set(entry["tflops"]) <= set(hardware.PRECISIONS)
        assert 100 <= entry["memory_gbs"] <= 20_000 and entry["tflops"]["fp32"] < entry["tflops"]["bf16"]


def test_model_flop_utilisation_of_steps(tmp_path):
    capture = Capture().gpu("NVIDIA H200")
    dims = ((8192, 4096), (4096, 4096))
    for step in range(4):
        at = 1_000_000 * step
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at, at + 900_000)
        matmul(capture, at, 300_000, 2 * step, dims=dims)
        matmul(capture, at + 300_000, 300_000, 2 * step + 1, "elementwise_kernel", dims, "aten::unknown_op")
    answer = ask(tmp_path, "throughput", capture)
    (row,) = answer.utilization.rows()
    # The first step has nothing before it, so it is incomplete; the last ends with its last operation.
    lengths = [1_000_000, 1_000_000, 600_000 + 400_000]
    assert (row["steps"], row["step_ns"]) == (3, sum(lengths) / 3)
    assert row["flop_per_step"] == 2 * 8192 * 4096 * 4096
    assert row["mfu"] == pytest.approx(3 * row["flop_per_step"] / (sum(lengths) / 1e9) / 989e12)
    assert row["estimated_share"] == 1.0 and row["precisions"] == "bf16"


def profiled_page(*kernels):
    """A raw page of launches: (kernel, compute %, memory %, DRAM %)."""
    values = [[str(1000 * (k + 1)), *map(str, row[1:])] for k, row in enumerate(kernels)]
    launches = [launch(k, row[0]) for k, row in enumerate(kernels)]
    return wide((TIME, COMPUTE, MEMORY, DRAM), ("ns", "%", "%", "%"), *zip(launches, values, strict=True))


def test_profile_and_timeline_are_joined_by_name(tmp_path):
    capture = Capture().kernel(0, 600, name="void add<(int)4>(int)").kernel(650, 950, name="gemm")
    capture.kernel(1000, 1100, name="nobody_profiled_this")
    store = store_of(tmp_path / "s.duckdb", capture, run="job")
    page = tmp_path / "kernels.csv"
    page.write_text(profiled_page(("void add<4>(int)", 10, 85, 85), ("gemm", 90, 30, 20)))
    ingest([page], store, run="job")
    with traceanalyzer.open(store) as traces:
        kernels, throughput = traces.kernels(), traces.throughput()
    add, gemm, other = kernels.kernels.rows()
    assert (add["class"], add["class_source"], add["class_share"]) == ("memory_bound", "ncu", 1.0)
    assert (gemm["class"], gemm["gap_before_ns"]) == ("compute_bound", 50) and other["class"] is None
    assert [(r["class"], r["total_ns"], r["share"]) for r in kernels.limits.rows()] == [
        ("memory_bound", 600, 0.6),
        ("compute_bound", 300, 0.3),
        (None, 100, 0.1),
    ]
    said = {finding.code: finding.text for finding in throughput.findings}
    assert said["profile_coverage"].startswith("ncu's profile covers 90.0 % of the kernel time of rank 0")
    assert said["kernel_limits"].startswith("60.0 % of the kernel time of rank 0, device 0 is in memory-bound kernels")
    assert "a limit is known of 90.0 % of that time by ncu's profile" in said["kernel_limits"]


def test_a_function_name_matches_only_where_it_is_clear(tmp_path):
    # The geometry of the launches that `profiled_page` writes.
    sizes = {"grid_x": 64, "grid_y": 4, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1}
    capture = Capture().kernel(0, 600, name="void add<4>(int)", **sizes).kernel(650, 950, name="mul<2>", **sizes)
    capture.kernel(1000, 1100, name="add<8>", **(sizes | {"grid_x": 65}))
    store = store_of(tmp_path / "s.duckdb", capture, run="job")
    page = tmp_path / "kernels.csv"
    page.write_text(profiled_page(("add", 10, 85, 85), ("mul", 90, 30, 20), ("mul", 10, 85, 85)))
    ingest([page], store, run="job")
    with traceanalyzer.open(store) as traces:
        found = {row["kernel"]: row["class"] for row in traces.kernels().kernels.rows()}
    # ncu printed names without arguments: those of the geometry are meant; where they are limited by different things
    # none is taken.
    assert found == {"void add<4>(int)": "memory_bound", "mul<2>": None, "add<8>": None}


def test_short_kernels_and_what_graphs_or_fusion_could_gain(tmp_path):
    capture = Capture()
    # Launches 10 us apart on a thread that does nothing else; kernels of 3 us, so 7 us idle before each.
    for k in range(5):
        at = 10_000 * k
        capture.event(EventKind.API_CALL, "cudaDeviceSynchronize", at, at + 2_000)
        capture.event(EventKind.OPERATOR, "aten::add", at + 2_000, at + 9_000).launch(at + 3_000, at + 6_000, k)
        capture.kernel(at + 8_000, at + 11_000, k, name="add")
    capture.launch(60_000, 61_000, 9).kernel(70_000, 90_000, 9, name="gemm")
    answer = ask(tmp_path, "kernels", capture)
    (row,) = answer.short.rows()
    assert (row["kernel"], row["calls"], row["total_ns"], row["mean_ns"]) == ("add", 5, 15_000, 3_000)
    assert (row["gap_before_ns"], row["mean_gap_ns"]) == (4 * 7_000, 5_600)
    # Each gap is 1 us inside a synchronisation, 1 us inside the operator, the launch of 3 us, 2 us until it starts.
    assert row["graph_gain_ns"] == 4 * 6_000 and row["fusion_gain_ns"] == 4 * 6_000 + 15_000
    assert any(finding.code == "short_kernels" and finding.cost_ns == 24_000 for finding in answer.findings)


def test_samples_limit_kernels_that_run_alone(tmp_path):
    capture = Capture().kernel(0, 1000, name="copy").kernel(1000, 2000, name="gemm").kernel(2000, 3000, name="small")
    capture.kernel(2000, 3000, name="other", stream=9)
    issue, read, write = (
        "SM Issue [Throughput %]",
        *(f"DRAM {way} Bandwidth [Throughput %]" for way in ("Read", "Write")),
    )
    tensor = "Tensor Active [Throughput %]"
    for name, values in ((issue, (20, 12, 50)), (tensor, (0, 95, 0)), (read, (60, 20, 20)), (write, (30, 5, 20))):
        capture.metric(name, *((100 * k, values[k // 10]) for k in range(30)))
    answer = ask(tmp_path, "kernels", capture)
    found = {
        r["kernel"]: (r["class"], r["class_source"], r["compute_pct"], r["memory_pct"]) for r in answer.kernels.rows()
    }
    assert found["copy"] == ("memory_bound", "gpu_metrics", 20.0, 90.0)
    assert found["gemm"] == ("compute_bound", "gpu_metrics", 95.0, 25.0)
    assert found["small"][0] is None and found["other"][0] is None
    assert {r["kernel"]: r["tensor_cores"] for r in answer.kernels.rows()}["gemm"] is True


@pytest.mark.skipif(not TRACES.exists(), reason=MISSING)
def test_memory_bound_by_samples():
    with opened(TRACES / "memory_bound/nsys.sqlite.gz") as traces:
        answer = traces.kernels()
    families = {row["family"]: row for row in answer.families.rows()}
    elementwise = families["elementwise"]
    assert elementwise["share"] == pytest.approx(0.42, abs=0.005) and elementwise["class"] == "memory_bound"
    assert elementwise["memory_pct"] == pytest.approx(80, abs=3) and "DRAM" in elementwise["reason"]
    for name in ("normalization", "softmax"):
        assert families[name]["class"] == "compute_bound" and "instruction issue" in families[name]["reason"]


@pytest.mark.skipif(not TRACES.exists(), reason=MISSING)
def test_memory_bound_by_shapes():
    with opened(TRACES / "memory_bound/torch.json.gz") as traces:
        answer = traces.kernels()
    families = {row["family"]: row for row in answer.families.rows()}
    assert (families["elementwise"]["class"], families["elementwise"]["class_source"]) == ("memory_bound", "estimated")
    for name in ("normalization", "softmax"):
        assert families[name]["class"] is None and "instruction issue, caches or latency" in families[name]["reason"]


@pytest.mark.skipif(not TRACES.exists(), reason=MISSING)
@pytest.mark.parametrize("trace", ["torch.json.gz", "nsys.sqlite.gz"])
def test_the_matrix_products_of_healthy_are_compute_bound_and_on_tensor_cores(trace):
    with opened(TRACES / f"healthy/{trace}") as traces:
        answer = traces.kernels(top=0)
    products = rows(answer, "kernels", family="matmul")
    assert len(products) == 7
    assert {(row["class"], row["tensor_cores"]) for row in products} == {("compute_bound", True)}


@pytest.mark.skipif(not TRACES.exists(), reason=MISSING)
def test_estimates_agree_with_what_ncu_measured_of_the_same_job():
    with opened(TRACES / "ncu/training_steps/raw.csv.gz") as traces:
        launches = [row for row in traces.throughput(top=0).kernels.rows() if row["tensor_flop"]]
    measured: dict[str, list[float]] = {}
    for row in launches:
        measured.setdefault(same_name(row["kernel"]), []).append(row["flop_per_s"] / 1e12)
    with opened(TRACES / "mem_leak/torch.json.gz") as traces:
        kernels, throughput = traces.kernels(top=0), traces.throughput(top=0)
    peak = next(row["value"] for row in throughput.peaks.rows() if row["peak"] == "bf16")
    products = rows(kernels, "kernels", family="matmul")
    assert len(products) == len(measured) == 3
    for row in products:
        estimated = row["compute_pct"] / 100 * peak
        by_ncu = sum(measured[same_name(row["kernel"])]) / len(measured[same_name(row["kernel"])])
        assert estimated == pytest.approx(by_ncu, rel=0.1) and estimated < peak
    # Each large product of a launch is 2 x 8192 x 4096 x 4096 operations, by the counters of ncu and by shapes.
    assert {row["tensor_flop"] for row in launches} == {2.0 * 8192 * 4096 * 4096}


@pytest.mark.skipif(not PUBLIC.exists(), reason=MISSING)
@pytest.mark.parametrize(
    "path",
    [path for path in sorted(PUBLIC.glob("torch/*.json.gz")) if not re.search("nanogpt_8xh100_r[1-7]", path.name)],
    ids=lambda path: path.name,
)
def test_kernels_of_others_add_up_and_stay_within_the_peaks(path):
    try:
        opening = opened(path)
        with opening as traces:
            answer, throughput = traces.kernels(top=0), traces.throughput(top=0)
    except traceanalyzer.errors.TraceAnalyzerError:
        pytest.skip("refused as no trace")
    for table in ("families", "limits"):
        shares: dict[tuple[int, int], float] = {}
        for row in getattr(answer, table).rows():
            place = row["capture"], row["device"]
            shares[place] = shares.get(place, 0.0) + (row["share"] or 0.0)
        assert all(share == pytest.approx(1) or share == 0 for share in shares.values())
    for row in throughput.operators.rows():
        assert row["total_ns"] >= 0 and (row["flop"] is None or row["flop"] >= 0)
        if row["compute_share"] is not None and row["total_ns"] / row["kernels"] > 20_000:
            assert row["compute_share"] < 1.05, row
    json.dumps([list(answer.kernels.rows()), list(throughput.operators.rows())], allow_nan=False)


@pytest.mark.parametrize(
    ("known", "extra", "limit", "words"),
    [
        # A pipe that counts as compute and as memory is full, and little arithmetic is done: loads and stores.
        (
            {"compute_pct": 83.1, "memory_pct": 83.1, "dram_pct": 9, "l1_pct": 84},
            Extra(0.1),
            "memory_bound",
            "memory 83 % (L1 84 %)",
        ),
        ({"compute_pct": 83.1, "memory_pct": 83.1}, Extra(0.9), "compute_bound", "nothing left to gain"),
        ({"compute_pct": 85, "memory_pct": 40}, Extra(0.1), "compute_bound", "but 10 % of its roofline"),
        (
            {"compute_pct": 85, "memory_pct": 40, "tensor_pct": 0.0, "kernel": "ampere_sgemm_128x64_nn"},
            Extra(0.75),
            "compute_bound",
            "without tensor cores",
        ),
        (
            {"compute_pct": 10, "memory_pct": 22, "waves_per_multiprocessor": 9, "theoretical_occupancy_pct": 50}
            | {"occupancy_pct": 18, "registers_per_thread": 32},
            Extra(None, {"blocks": 32, "registers": 64, "shared memory": 32, "warps": 64}),
            "latency_bound",
            "50 % at most (under 80 %), 18 % achieved, limited by blocks: larger blocks",
        ),
        (
            {"compute_pct": 10, "memory_pct": 22, "waves_per_multiprocessor": 9, "theoretical_occupancy_pct": 50},
            Extra(None, {"blocks": 32, "registers": 4, "shared memory": 32, "warps": 8}),
            "latency_bound",
            "limited by registers: fewer registers a thread",
        ),
    ],
)
def test_reasons_with_rooflines_and_block_limits(known, extra, limit, words):
    one = profile(**known)
    found = limit_of(one, sol_class(one["compute_pct"], one["memory_pct"], one["waves_per_multiprocessor"]), extra)
    assert found.limit == limit and words in found.reason


def test_operations_without_length_split_no_gap_before_a_kernel(tmp_path):
    capture = Capture().kernel(0, 100, name="a").kernel(150, 150, name="mark").kernel(300, 400, name="b")
    capture.kernel(300, 350, name="c", stream=9)
    answer = ask(tmp_path, "kernels", capture)
    # The gap 100-300 is that before the first operation that starts at its end; others of that instant have none.
    assert {row["kernel"]: row["gap_before_ns"] for row in answer.kernels.rows()} == {
        "a": 0,
        "mark": 0,
        "b": 200,
        "c": 0,
    }


def test_kernels_of_graphs_gain_nothing_by_graphs(tmp_path):
    capture = Capture().launch(0, 1_000, 1, name="cudaGraphLaunch")
    for k in range(4):
        capture.kernel(2_000 + 5_000 * k, 4_000 + 5_000 * k, 1, name="node")
    (row,) = ask(tmp_path, "kernels", capture).short.rows()
    assert (row["calls"], row["gap_before_ns"], row["graph_gain_ns"], row["fusion_gain_ns"]) == (4, 9_000, 0, 8_000)


def test_what_the_program_does_between_launches_counts_in_short_gaps_only(tmp_path):
    capture = Capture().event(EventKind.PYTHON_FRAME, "train.py(1): step", 0, 400_000)
    for k, at in enumerate((0, 20_000, 300_000)):
        capture.launch(at + 1_000, at + 2_000, k).kernel(at + 3_000, at + 5_000, k, name="add")
    (row,) = ask(tmp_path, "kernels", capture).short.rows()
    # Gaps of 18 us and of 278 us; of the second one only its launch of 1 us and 1 us until the kernel starts.
    assert row["gap_before_ns"] == 18_000 + 278_000 and row["graph_gain_ns"] == 18_000 + 2_000


def test_shares_of_sentences_and_tables_are_of_all_kernels(tmp_path):
    capture = matmul(Capture().gpu("NVIDIA H200"), 0, 370_568, 1, dims=((8192, 4096), (4096, 4096)))
    capture.communication(400_000, 400_000 + 370_568)
    answer = ask(tmp_path, "kernels", capture)
    assert [(r["family"], r["share"], r["class"]) for r in answer.families.rows()] == [
        ("communication", 0.5, None),
        ("matmul", 0.5, "compute_bound"),
    ]
    assert [(r["class"], r["share"]) for r in answer.limits.rows()] == [("communication", 0.5), ("compute_bound", 0.5)]
    said = next(finding.text for finding in answer.findings if finding.code == "kernel_limits")
    assert said.startswith("50.0 % of the kernel time") and said.endswith("communication takes 50.0 %")


def test_a_kernel_has_the_class_of_most_of_its_launches_time(tmp_path):
    store = store_of(tmp_path / "s.duckdb", Capture().kernel(0, 600, name="gelu"), run="job")
    page = tmp_path / "kernels.csv"
    # 1000 ns memory-bound, 2000 ns compute-bound, 3000 ns compute-bound: five sixths.
    page.write_text(profiled_page(("gelu", 10, 85, 85), ("gelu", 85, 10, 10), ("gelu", 90, 10, 10)))
    ingest([page], store, run="job")
    with traceanalyzer.open(store) as traces:
        (row,) = traces.kernels().kernels.rows()
    assert (row["class"], row["class_share"]) == ("compute_bound", pytest.approx(5 / 6))
    assert "(83 % of its profiled time)" in row["reason"]


def test_a_file_of_peaks_that_fits_no_device_is_said(tmp_path):
    peaks = tmp_path / "peaks.toml"
    peaks.write_text("[[gpu]]\nnames = 'V100'\nmemory_gbs = 900\n")
    answer = ask(tmp_path, "throughput", matmul(Capture().gpu("Tesla V100-PCIE"), 0, 1000, 1), peaks=str(peaks))
    assert answer.warnings == [
        f"--peaks {peaks}: its names fit no device here: Tesla V100-PCIE; names is matched with the whole name"
    ]


def test_utilisation_of_selected_steps_is_that_of_their_time(tmp_path):
    capture = Capture().gpu("NVIDIA H200")
    for step in range(6):
        at = 1_000_000 * step
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at, at + 900_000)
        matmul(capture, at, 300_000, step, dims=((8192, 4096), (4096, 4096)))
    (whole,) = ask(tmp_path, "throughput", capture).utilization.rows()
    (some,) = ask(tmp_path, "throughput", capture, steps="2-3").utilization.rows()
    assert (whole["steps"], some["steps"]) == (5, 2)
    assert some["flop_per_step"] == whole["flop_per_step"] == 2 * 8192 * 4096 * 4096
    assert some["mfu"] == pytest.approx(some["flop_per_step"] / (some["step_ns"] / 1e9) / 989e12)
    (kernel,) = ask(tmp_path, "kernels", capture, steps="2-3").kernels.rows()
    assert kernel["step_share"] == pytest.approx(0.3)


def test_a_window_that_cuts_a_kernel_does_not_make_it_faster(tmp_path):
    capture = matmul(Capture().gpu("NVIDIA H200"), 0, 370_568, 1, dims=((8192, 4096), (4096, 4096)))
    (whole,) = ask(tmp_path, "throughput", capture).operators.rows()
    (cut,) = ask(tmp_path, "throughput", capture, window="0:0.00001").operators.rows()
    assert cut["compute_share"] == whole["compute_share"] and cut["class"] == whole["class"] == "compute_bound"
    long = ask(tmp_path, "kernels", Capture().kernel(0, 10_000_000), window="0:0.000005")
    assert not len(long.short)


def test_samples_speak_of_the_calls_that_they_saw(tmp_path):
    capture = Capture().kernel(0, 1000, name="k").kernel(2000, 3000, name="k")
    for name, value in (("SM Issue [Throughput %]", 90), ("DRAM Read Bandwidth", 5), ("DRAM Write Bandwidth", 5)):
        capture.metric(name, *((100 * k, value) for k in range(10)))
    (row,) = ask(tmp_path, "kernels", capture).kernels.rows()
    assert (row["class"], row["class_share"]) == ("compute_bound", 0.5)


def test_without_a_peak_of_arithmetic_nothing_is_said_to_wait():
    assert limit_of_estimate(Ideal(5_000, 2, None, 100)).limit is None


def test_collectives_reach_no_share_of_an_arithmetic_peak():
    """What they add up is not held against a peak: None, not a share of nought that looks measured."""
    with opened(Path(__file__).parents[2] / "sample_traces" / "ddp2_slow1") as traces:
        found = [row for row in traces.throughput(top=0).operators.rows() if row["family"] == "communication"]
    assert len({row["rank"] for row in found}) == 2
    for row in found:
        assert row["flop"] > 0 and row["memory_share"] > 0
        assert row["compute_share"] is None and row["class"] is None
        assert row["reason"].startswith("communication: ")
