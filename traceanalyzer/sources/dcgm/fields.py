"""DCGM's fields: every name that a field has, its unit and meaning, keyed by its number.

A field has a number (`dcgmi dmon -e 203`), a short name (a column of `dcgmi dmon`), a tag (DCGM's API) and a symbol
(dcgm-exporter), which DCGM 4.6.0 renamed for many fields. Numbers never change. Source: dcgm_fields.h and
dcgm_fields.cpp of DCGM 4.6; dcgm-exporter's default-counters.csv.
"""

from dataclasses import dataclass

RATIO = "0-1"
"""Unit of a share from 0 to 1. Shares in percent have the unit %."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field. `name` is its symbol before 4.6.0 without `DCGM_FI_`, `renamed` the one since, where that differs.

    `unit` is None where the value is a code, a bit mask or a plain count, or where no document tells it.
    """

    number: int
    name: str
    renamed: str | None
    short: str | None
    tag: str | None
    unit: str | None
    meaning: str


FIELDS = tuple(
    Field(*row)
    for row in (
        (92, "DEV_BAR1_USED", None, "B1USE", "bar1_used", "MiB", "BAR1 memory in use"),
        (93, "DEV_BAR1_FREE", None, "B1FRE", "bar1_free", "MiB", "BAR1 memory that is free"),
        (100, "DEV_SM_CLOCK", None, "SMCLK", "sm_clock", "MHz", "clock of the multiprocessors"),
        (101, "DEV_MEM_CLOCK", None, "MMCLK", "memory_clock", "MHz", "clock of the memory"),
        (102, "DEV_VIDEO_CLOCK", None, "VICLK", "video_clock", "MHz", "clock of the video engines"),
        (110, "DEV_APP_SM_CLOCK", None, "SACLK", "sm_app_clock", "MHz", "clock that is set for multiprocessors"),
        (111, "DEV_APP_MEM_CLOCK", None, "MACLK", "mem_app_clock", "MHz", "clock that is set for memory"),
        (112, "DEV_CLOCK_THROTTLE_REASONS", "DEV_CLOCKS_EVENT_REASONS", "DVCCTR", "current_clock_throttle_reasons",
         None, "why clocks are not higher: bit mask"),
        (113, "DEV_MAX_SM_CLOCK", None, None, None, "MHz", "highest clock of the multiprocessors"),
        (114, "DEV_MAX_MEM_CLOCK", None, None, None, "MHz", "highest clock of the memory"),
        (140, "DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS", "MMTMP", "memory_temp", "C", "temperature of the memory"),
        (150, "DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", "TMPTR", "gpu_temp", "C", "temperature of the GPU"),
        (151, "DEV_MEM_MAX_OP_TEMP", "DEV_MEMORY_MAX_OP_TEMP_CELSIUS", None, None, "C", "limit for the memory"),
        (152, "DEV_GPU_MAX_OP_TEMP", "DEV_GPU_MAX_OP_TEMP_CELSIUS", None, None, "C", "limit for the GPU"),
        (153, "DEV_GPU_TEMP_LIMIT", "DEV_GPU_TEMP_MARGIN_CELSIUS", None, None, "C", "distance to the slowdown"),
        (155, "DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", "POWER", "power_usage", "W", "power of the board"),
        (156, "DEV_TOTAL_ENERGY_CONSUMPTION", None, "TOTEC", "total_energy_consumption", "mJ",
         "energy since the driver was loaded"),
        (157, "DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS", "POWINST", "power_usage_instant", "W",
         "power of the board at the instant"),
        (158, "DEV_SLOWDOWN_TEMP", "DEV_GPU_TEMP_SLOWDOWN_CELSIUS", None, None, "C", "temperature of slowdown"),
        (159, "DEV_SHUTDOWN_TEMP", "DEV_GPU_TEMP_SHUTDOWN_CELSIUS", None, None, "C", "temperature of shutdown"),
        (160, "DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "PMLMT", "power_management_limit", "W",
         "power limit that is set"),
        (161, "DEV_POWER_MGMT_LIMIT_MIN", "DEV_BOARD_POWER_LIMIT_MIN_WATTS", "PMMIN", "power_management_limit_min",
         "W", "lowest power limit"),
        (162, "DEV_POWER_MGMT_LIMIT_MAX", "DEV_BOARD_POWER_LIMIT_MAX_WATTS", "PMMAX", "power_management_limit_max",
         "W", "highest power limit"),
        (163, "DEV_POWER_MGMT_LIMIT_DEF", "DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", "PMDEF",
         "power_management_limit_default", "W", "default power limit"),
        (164, "DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "EPLMT", "enforced_power_limit", "W",
         "power limit that is in force"),
        (190, "DEV_PSTATE", "DEV_GPU_PSTATE", "PSTAT", "pstate", None, "performance state, 0 is the highest"),
        (191, "DEV_FAN_SPEED", None, "FANSP", "fan_speed", "%", "speed of the fan"),
        (200, "DEV_PCIE_TX_THROUGHPUT", None, "TXTPT", "pcie_tx_throughput", "KB/s", "PCIe, sent"),
        (201, "DEV_PCIE_RX_THROUGHPUT", None, "RXTPT", "pcie_rx_throughput", "KB/s", "PCIe, received"),
        (202, "DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", "RPCTR", "pcie_replay_counter", None,
         "PCIe retries"),
        (203, "DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", "GPUTL", "gpu_utilization", "%", "time with a kernel running"),
        (204, "DEV_MEM_COPY_UTIL", None, "MCUTL", "mem_copy_utilization", "%", "time with memory traffic"),
        (206, "DEV_ENC_UTIL", None, "ECUTL", "enc_utilization", "%", "encoder"),
        (207, "DEV_DEC_UTIL", None, "DCUTL", "dec_utilization", "%", "decoder"),
        (230, "DEV_XID_ERRORS", "DEV_XID_ERROR", "XIDER", "xid_errors", None, "code of the last XID error, no count"),
        (235, "DEV_PCIE_MAX_LINK_GEN", None, None, None, None, "highest PCIe generation"),
        (236, "DEV_PCIE_MAX_LINK_WIDTH", None, None, None, None, "highest number of PCIe lanes"),
        (237, "DEV_PCIE_LINK_GEN", None, None, None, None, "PCIe generation"),
        (238, "DEV_PCIE_LINK_WIDTH", None, None, None, None, "PCIe lanes"),
        (240, "DEV_POWER_VIOLATION", None, "PVIOL", "power_violation", "ns", "throttled by the power limit"),
        (241, "DEV_THERMAL_VIOLATION", None, "TVIOL", "thermal_violation", "ns", "throttled by temperature"),
        (242, "DEV_SYNC_BOOST_VIOLATION", None, "SBVIO", "sync_boost_violation", "ns", "throttled by sync boost"),
        (243, "DEV_BOARD_LIMIT_VIOLATION", None, "BVIOL", "board_limit_violation", "ns", "throttled by board limits"),
        (244, "DEV_LOW_UTIL_VIOLATION", None, "LUVIOL", "low_util_violation", "ns", "clocks low for lack of work"),
        (245, "DEV_RELIABILITY_VIOLATION", None, "RVIOL", "reliability_violation", "ns", "throttled for reliability"),
        (246, "DEV_TOTAL_APP_CLOCKS_VIOLATION", None, None, None, "ns", "below the clocks that are set"),
        (247, "DEV_TOTAL_BASE_CLOCKS_VIOLATION", None, None, None, "ns", "below the base clocks"),
        (250, "DEV_FB_TOTAL", None, "FBTTL", "fb_total", "MiB", "memory of the GPU"),
        (251, "DEV_FB_FREE", None, "FBFRE", "fb_free", "MiB", "memory that is free"),
        (252, "DEV_FB_USED", None, "FBUSD", "fb_used", "MiB", "memory in use"),
        (253, "DEV_FB_RESERVED", None, "FBRSV", "fb_resv", "MiB", "memory that the driver keeps"),
        (254, "DEV_FB_USED_PERCENT", "DEV_FB_USED_RATIO", "FBUSP", "fb_USDP", RATIO, "memory in use, as a share"),
        (310, "DEV_ECC_SBE_VOL_TOTAL", None, "ESVTL", "ecc_sbe_volatile_total", None, "single-bit errors since boot"),
        (311, "DEV_ECC_DBE_VOL_TOTAL", None, "EDVTL", "ecc_dbe_volatile_total", None, "double-bit errors since boot"),
        (312, "DEV_ECC_SBE_AGG_TOTAL", None, "ESATL", "ecc_sbe_aggregate_total", None, "single-bit errors ever"),
        (313, "DEV_ECC_DBE_AGG_TOTAL", None, "EDATL", "ecc_dbe_aggregate_total", None, "double-bit errors ever"),
        (390, "DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL", "RPSBE", "retired_pages_sbe", None, "retired pages"),
        (391, "DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL", "RPDBE", "retired_pages_dbe", None, "retired pages"),
        (392, "DEV_RETIRED_PENDING", "DEV_PAGE_RETIRED_PENDING", "RPPEN", "retired_pages_pending", None,
         "pages to be retired"),
        (393, "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", None, None, None,
         "rows remapped for uncorrectable errors"),
        (394, "DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL", None, None, None,
         "rows remapped for correctable errors"),
        (395, "DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", None, None, None, "whether a row was not remapped"),
        (396, "DEV_ROW_REMAP_PENDING", None, None, None, None, "whether rows wait to be remapped"),
        (409, "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", None, None, None,
         "NVLink flow control errors"),
        (419, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_TOTAL", None, None, None,
         "NVLink data errors"),
        (429, "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL", None, None, None,
         "NVLink retries"),
        (439, "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL", None, None, None,
         "NVLink recoveries"),
        # What it counts, and in which unit, is told differently from version to version.
        (449, "DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_TOTAL", "NBWLT", "nvlink_bandwidth_total", None,
         "NVLink, unit unclear"),
        (1001, "PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", "GRACT", "gr_engine_active", RATIO,
         "time with a context busy"),
        (1002, "PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO", "SMACT", "sm_active", RATIO,
         "cycles in which a multiprocessor has a warp, mean over all"),
        (1003, "PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO", "SMOCC", "sm_occupancy", RATIO,
         "resident warps of the most possible"),
        (1004, "PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", "TENSO", "tensor_active", RATIO,
         "cycles of the tensor pipe"),
        (1005, "PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", "DRAMA", "dram_active", RATIO,
         "cycles of the memory interface; about 0.8 can be had"),
        (1006, "PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO", "FP64A", "fp64_active", RATIO, "FP64 pipe"),
        (1007, "PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO", "FP32A", "fp32_active", RATIO, "FP32 pipe"),
        (1008, "PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO", "FP16A", "fp16_active", RATIO, "FP16 pipe, no HMMA"),
        (1009, "PROF_PCIE_TX_BYTES", None, "PCITX", "pcie_tx_bytes", "bytes/s", "PCIe, sent by the GPU"),
        (1010, "PROF_PCIE_RX_BYTES", None, "PCIRX", "pcie_rx_bytes", "bytes/s", "PCIe, received by the GPU"),
        (1011, "PROF_NVLINK_TX_BYTES", None, "NVLTX", "nvlink_tx_bytes", "bytes/s", "NVLink, sent"),
        (1012, "PROF_NVLINK_RX_BYTES", None, "NVLRX", "nvlink_rx_bytes", "bytes/s", "NVLink, received"),
        (1013, "PROF_PIPE_TENSOR_IMMA_ACTIVE", "PROF_IMMA_UTIL_RATIO", "TIMMA", "tensor_imma_active", RATIO, "IMMA"),
        (1014, "PROF_PIPE_TENSOR_HMMA_ACTIVE", "PROF_HMMA_UTIL_RATIO", "THMMA", "tensor_hmma_active", RATIO, "HMMA"),
        (1015, "PROF_PIPE_TENSOR_DFMA_ACTIVE", "PROF_DFMA_UTIL_RATIO", "TDFMA", "tensor_dfma_active", RATIO, "DFMA"),
        (1016, "PROF_PIPE_INT_ACTIVE", "PROF_INT_UTIL_RATIO", "INTAC", "integer_active", RATIO, "integer pipe"),
    )
)  # fmt: skip

_PREFIX = "dcgm_fi_"
_OLD_PREFIX = "dcgm_"  # dcgm-exporter 1.x: dcgm_gpu_temp, by the tag
_OTHER_NAMES = {"power_mgmt_limit": 160, "mem_copy_utilization": 204, "dev_clocks_event_reason": 112}


def _names() -> dict[str, Field]:
    out = {}
    for field in FIELDS:
        for name in (str(field.number), field.name, field.renamed, field.short, field.tag):
            if name is not None:
                out[name.lower()] = field
    by_number = {field.number: field for field in FIELDS}
    return out | {name: by_number[number] for name, number in _OTHER_NAMES.items()}


_BY_NAME = _names()


def field_of(name: str) -> Field | None:
    """The field of a number, short name, tag or symbol, old or new, with `DCGM_FI_` or without; None if unknown."""
    text = name.lower()
    return _BY_NAME.get(text.removeprefix(_PREFIX)) or _BY_NAME.get(text.removeprefix(_OLD_PREFIX))


_SUFFIX_UNITS = {
    "ratio": RATIO,
    "bytes": "bytes",
    "hz": "Hz",
    "watts": "W",
    "seconds": "s",
    "celsius": "C",
    "joules": "J",
    "hertz": "Hz",
    "percent": "%",
}
_SMI_UNITS = {"temperature_gpu": "C", "temperature_memory": "C", "temperature_gpu_tlimit": "C"}


def unit_of(name: str, told: str | None = None) -> str | None:
    """Unit of a metric: the field's, else the one that its file tells, else that of its name (`_bytes`, `_ratio`).

    A file's own word stands where it is another prefix of a time: old versions count violations in us.
    """
    field = field_of(name)
    if field is not None:
        return told if told in ("us", "ns") and field.unit in ("us", "ns") else field.unit
    if told is not None:
        return told
    text = name.lower()
    if text.startswith("nvidia_smi_"):
        plain = text.removeprefix("nvidia_smi_")
        return _SMI_UNITS.get(plain) or _SUFFIX_UNITS.get(plain.rpartition("_")[2])
    return _SUFFIX_UNITS.get(text.rpartition("_")[2]) if text.startswith(("dcgm_fi_", "dcgm_exp_")) else None
