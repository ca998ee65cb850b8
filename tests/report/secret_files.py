"""Files of every kind with secrets wherever a name can stand. All of them have a word that stands nowhere else."""

import json
from pathlib import Path

from tests.support import ncu_writer
from tests.support.nsys_builder import build, call, gpid, gtid, kernel, memcpy, nvtx
from tests.support.telemetry_files import pmon, query

FOLDERS = [f"zfolder{k}" for k in range(1, 20)]
USERS = ["jqpublic", "mzmustermann", "Zoë", "xzhang", "pbtilde", "atuser", "wuzx", "zspace"]
DOMAINS = ["zcorp", "zcloud"]
ADDRESSES = ["10.71.82.93", "2001:db8:71::93", "192.168.71.93"]
VALUES = ["zenvvalue1", "zenvvalue2", "zens5np0", "zbucket", "zquery"]
SECRETS = [*FOLDERS, *USERS, *DOMAINS, *ADDRESSES, *VALUES]

HOSTS = ["qxnode7.rack3.zcorp.example.com", "qxnode8", "qxnode9", "qxlog4"]
GEMM = "void zcutlass::device_kernel<zcutlass::gemm::Shape<128, 64>, float const*>(zParams<float>, int)"
LONG = f"void zlong::{'inner::' * 20}zkernel<float, {', '.join(['int'] * 30)}>(float*)"
KERNELS = [
    GEMM,
    LONG,
    "zgemm",
    "zgemm_split",
    "zgemm_split_k",
    "triton_poi_fused_zadd_0",
    "zq",
    "ncclDevKernel_zAllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
    "znsys_kernel(float*)",
    "zncu_kernel(float*, int)",
]
WORDLIKE = ["copy", "gemm", "k", "kernel", "idle"]
"""Names of kernels that are words of sentences."""

NAMES = [
    "/home/jqpublic/zfolder1/zfolder2/load.bin",
    "reads /home/jqpublic/zfolder1 and more/zfolder2 x/load.bin",
    "/Users/mzmustermann/zfolder3/data.pt and/or 3 GB/s",
    r"C:\Users\xzhang\zfolder4\run.py",
    r"\\zfolder5\zfolder6\share.bin",
    "file:///home/jqpublic/zfolder7/x.bin",
    "s3://zbucket/zfolder8/key.bin",
    "https://qxnode7.rack3.zcorp.example.com/zfolder9/page?token=zquery",
    "~pbtilde/zfolder10/x.yaml",
    "cd ~pbtilde",
    "-I/home/jqpublic/zfolder11/include",
    "WANDB_API_KEY=zenvvalue1 HOME=/home/jqpublic python zfolder12/train.py --lr=3e-4",
    "rsync atuser@qxnode7.rack3.zcorp.example.com:/zfolder13/zfolder14/x",
    "master 10.71.82.93:29500 or [2001:db8:71::93]:29500 or tcp://192.168.71.93:1",
    "qxnode7.rack3.zcorp.example.com:29500",
    "job of jqpublic: exp_jqpublic_v2",
    "/home/Zoë/zfolder15/ünï/x.npy",
    "/home/wuzx",
    "'/home/zspace q/zfolder16 y/last.json'",
    "ip-10-1-2-3.us.zcloud.internal",
]
HARMLESS = [
    "aten::add",
    "nn.Module: Linear_0",
    "12 GB/s and/or 3/4 us/step",
    "forward/attention",
    "2026-11-29T16:00:00",
    "abc::dead(int)",
    "cuDNN 9.1.0.70",
    "linear_zoe",
    "f@plt",
]
HOSTILE = ["</script><script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "abc\u202egnp.exe", "{{7*7}}"]


def torch_file(path: Path, rank: int = 0, host: str = HOSTS[0], names: list[str] | None = None) -> Path:
    """Three steps of kernels, of waits inside of ranges and Python frames with secrets, of copies and a collective."""
    ranges = [*NAMES, *HARMLESS, *HOSTILE] if names is None else names
    kernels = [*KERNELS[:7], *WORDLIKE]
    place, events, number, t = {"pid": 100, "tid": 100}, [], 0, 1000.0
    events += [
        _meta("process_name", "python /home/jqpublic/zfolder1/train.py --data /zfolder2/zfolder3/x", 100),
        _meta("process_labels", "/home/jqpublic/zfolder1", 100),
        _meta("thread_name", "pt_data_worker /home/jqpublic/zfolder17/loader", 100, 100),
        _meta("thread_name", "_MultiProcessingDataLoaderIter jqpublic@qxnode8", 100, 101),
    ]

    def add(cat: str, name: str, at: float, dur: float, **args: object) -> None:
        events.append({"ph": "X", "cat": cat, "name": name, "ts": at, "dur": dur, "args": args, **place})

    for step in range(3):
        start, per = t, 400.0
        add("user_annotation", f"ProfilerStep#{step}", start, per * len(ranges) - 2)
        for k, name in enumerate(ranges):
            at = t + per * k
            add("user_annotation", name, at + 1, 350)
            frame = f"/home/jqpublic/zfolder18/zproject/model.py({k + 1}): zfunction{k}"
            add("python_function", frame, at + 2, 340, **{"Python id": number + 1})
            add("cpu_op", name if k % 2 else "aten::mm", at + 300, 30, **{"External id": number + 1})
            shown = kernels[k % len(kernels)]
            what = ("kernel", shown) if k % 5 else ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)")
            add("cuda_runtime", "cudaLaunchKernel", at + 305, 5, correlation=number + 1, **{"External id": number + 1})
            op = {"device": 0, "stream": 7, "correlation": number + 1, "bytes": 64, "External id": number + 1}
            if k == len(ranges) - 1:
                what = ("kernel", KERNELS[7])
                op |= {"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float", "Group size": 2}
                op |= {"Process Group Name": "0", "Process Group Description": "/home/jqpublic/zfolder19/group"}
            shared = {"ph": "X", "cat": what[0], "name": what[1], "pid": 0, "tid": 7}
            events.append(shared | {"ts": at + 320, "dur": 20.5 + k, "args": op})
            memory = {"Bytes": 512, "Addr": number, "Device Type": 1, "Device Id": 0, "Total Allocated": 512 * number}
            events.append({"ph": "i", "s": "t", "name": "[memory]", "ts": at + 310, "args": memory, **place})
            number += 1
        t = start + per * len(ranges)
    document = {
        "schemaVersion": 1,
        "host_name": host,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 1 << 34}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "traceName": "/home/jqpublic/zfolder1/trace.json",
        "user": "jqpublic",
        "env": {"WANDB_API_KEY": "zenvvalue1"},
        "traceEvents": events,
    }
    path.write_text(json.dumps(document))
    return path


def _meta(name: str, text: str, pid: int, tid: int = 0) -> dict[str, object]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {"name": text, "labels": text}}


def nsys_file(path: Path) -> Path:
    """An export whose NVTX ranges, threads, processes, messages and system have secrets."""
    strings = {1: KERNELS[8], 2: "znsys_kernel", 3: "cudaLaunchKernel_v7000", 4: "worker of jqpublic /home/jqpublic/x"}
    ranges, calls, kernels, copies = [], [], [], []
    for k, name in enumerate((*NAMES, *HARMLESS)):
        t = 10_000 + 100_000 * k
        ranges.append(nvtx(t, t + 99_000, text=name))
        ranges.append(nvtx(t - 10, t + 99_500, text=f"step {k}"))
        calls.append(call(t + 80_000, t + 81_000, 3, correlation=2 * k))
        kernels.append(kernel(t + 82_000, t + 90_000, correlation=2 * k, gridX=4, blockX=32))
        copies.append(memcpy(t + 91_000, t + 92_000, 1, correlation=2 * k))
    process = "/home/jqpublic/zfolder1/bin/python3.11"
    tables = {
        "TARGET_INFO_SYSTEM_ENV": [
            {"name": "Hostname", "value": HOSTS[1]},
            {"name": "UserName", "value": "jqpublic"},
            {"name": "DeviceEnvironment", "value": "TOKEN=zenvvalue2"},
        ],
        "META_DATA_CAPTURE": [{"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": "USER=jqpublic"}],
        "TARGET_INFO_GPU": [{"vmId": 1, "id": 0, "name": "GPU", "busLocation": "0000:01:00.0", "uuid": "GPU-0"}],
        "PROCESSES": [{"globalPid": gpid(10), "pid": 10, "name": process}],
        "ThreadNames": [{"nameId": 4, "priority": 1, "globalTid": gtid(10, 11)}],
        "DIAGNOSTIC_EVENT": [{"severity": 3, "text": "Could not open /home/jqpublic/zfolder2/x.qdstrm on qxnode7"}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "NVTX_EVENTS": ranges,
    }
    return build(path, tables, strings)


def nccl_log(path: Path) -> Path:
    """A log of NCCL with addresses, variables and a plugin's path."""
    host = HOSTS[2]
    path.write_text(
        f"""{host}:71:71 [0] NCCL INFO Bootstrap : Using zens5np0:10.71.82.93<0>
NCCL version 2.21.5+cuda12.4
{host}:71:80 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
{host}:71:80 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to zens5np0.
{host}:71:80 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to /zfolder1/zfolder2/lib.so.
{host}:71:80 [0] NCCL INFO Using network Socket
{host}:71:80 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
{host}:71:80 [0] NCCL INFO comm 0x5581 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 18000 - Init COMPLETE
"""
    )
    return path


def training_log(path: Path) -> Path:
    """A log of a job, each line of which begins with its host."""
    path.write_text("".join(f"{HOSTS[3]}: step {n} | loss: 9.5 | dt: 338.0 ms\n" for n in range(6)))
    return path


def telemetry(folder: Path) -> list[Path]:
    """nvidia-smi's readings, and its list of processes with command lines."""
    lines = [(k, 0, f"{50 + k} %") for k in range(6)]
    processes = [(k, 0, 4242, 90, 10, 500, "/home/jqpublic/zfolder1/bin/python") for k in range(6)]
    return [
        query(folder / "smi.csv", "utilization.gpu [%]", *lines),
        pmon(folder / "pmon.log", *processes),
    ]


def ncu_file(path: Path) -> Path:
    """A page of ncu whose process, host and kernel are secrets."""
    metrics = [
        ncu_writer.metric(name, unit, value, id_=launch, kernel=KERNELS[9])
        for launch in range(2)
        for name, unit, value in (
            ("Duration", "ns", "1,234,567"),
            ("Compute (SM) Throughput", "%", "81.25"),
            ("Memory Throughput", "%", "12.50"),
        )
    ]
    text = ncu_writer.page(*metrics)
    path.write_text(text.replace("python3", "/home/jqpublic/zfolder1/python3").replace("127.0.0.1", HOSTS[0]))
    return path
