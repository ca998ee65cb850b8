"""Large inputs: real captures, repeated along their time axis."""

import gzip
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared"
_REPLICATE = SHARED / "bench" / "replicate.py"


@dataclass(frozen=True, slots=True)
class Input:
    """A file to make: its name, the capture that it repeats, and how often or to which size."""

    name: str
    capture: str
    how: tuple[str, ...]
    packed: bool = False

    def made(self, folder: Path) -> Path:
        """The path of the file, which is made where it is not there yet."""
        target = folder / self.name
        if target.exists():
            return target
        plain = target.with_suffix("") if self.packed else target
        if not plain.exists():
            print(f"making {plain.name} ...", file=sys.stderr)
            subprocess.run(
                [sys.executable, str(_REPLICATE), str(SHARED / "traces" / self.capture), str(plain), *self.how],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        if self.packed:
            with plain.open("rb") as source, gzip.open(target, "wb", compresslevel=6) as packed:
                shutil.copyfileobj(source, packed, 1 << 20)
        return target


_STACKS = "big_sync_item/torch.stack.json.gz"
TORCH_300_MB = Input("torch-300.json", _STACKS, ("--times", "2"))
TORCH_300_MB_GZ = Input("torch-300.json.gz", _STACKS, ("--times", "2"), packed=True)
TORCH_1_GB = Input("torch-1000.json", _STACKS, ("--times", "7"))
NSYS_250_MB = Input("nsys-250.sqlite", "big_launch_bound/nsys.sqlite.gz", ("--size", "250MB"))
NSYS_5_M_KERNELS = Input("launches-48.sqlite", "big_launch_bound/nsys.sqlite.gz", ("--times", "48"))
TORCH_6_M_EVENTS = Input("stacks-20.json", _STACKS, ("--times", "20"))
TORCH_25_MB = Input("torch-25.json", "sync_item/torch.stack.json.gz", ("--size", "25MB"))
