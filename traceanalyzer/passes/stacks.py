"""Stacks as people read them: the frames of a node, outermost first, and which of them is the user's own code."""

import re
import sys
from collections.abc import Iterable
from pathlib import PurePosixPath

from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind

_INSTALLED = re.compile(r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)lib(?:64)?/python\d+(?:\.\d+)?/|^<|^\?$")

LIBRARIES = frozenset(
    ["torch", "torchvision", "torchaudio", "torchdata", "torch_xla", "triton", "functorch", "numpy", "scipy", "pandas", "PIL", "cv2", "sklearn", "matplotlib", "transformers", "accelerate", "datasets", "tokenizers", "diffusers", "peft", "timm", "safetensors", "huggingface_hub", "bitsandbytes", "trl", "deepspeed", "lightning", "pytorch_lightning", "lightning_fabric", "torchmetrics", "megatron", "apex", "transformer_engine", "flash_attn", "xformers", "vllm", "sglang", "einops", "jax", "jaxlib", "flax", "cupy", "numba", "cuda", "nvtx", "tensorboard", "wandb", "mlflow", "ray", "dask", "tqdm", "IPython", "ipykernel", "traitlets", "tornado", "click", "absl", "hydra", "omegaconf", "fsspec", "pyarrow", "polars", "pydantic", "pluggy", "pytest", "_pytest", "multiprocess", "dill", "cloudpickle", "joblib"]
)
"""Packages whose frames torch.profiler records relative to site-packages, where the path does not tell them."""

_STANDARD = sys.stdlib_module_names


def is_user_file(path: str | None, user_code: re.Pattern[str] | None = None) -> bool:
    """Whether a file is the user's own: not the standard library, an installed package or a pseudo-file `<...>`."""
    if not path:
        return False
    plain = path.replace("\\", "/")
    if user_code is not None and user_code.search(plain):
        return True
    if _INSTALLED.search(plain) or (not plain.endswith((".py", ".ipynb", ".pyx")) and "/ipykernel_" not in plain):
        return False
    if plain.startswith("/"):
        return True
    first = PurePosixPath(plain).parts[0]
    package = first.removesuffix(".py")
    return package not in LIBRARIES and package not in _STANDARD


class StackTexts:
    """Frames and blame of the nodes that are asked for; loads the needed part of the prefix tree once."""

    def __init__(self, scope: Scope, nodes: Iterable[int], user_code: str | None = None) -> None:
        self._user_code = re.compile(user_code) if user_code else None
        wanted = sorted({n for n in nodes if n >= 0})
        rows = scope.connection.execute(
            """WITH RECURSIVE needed AS (
                SELECT node_id, parent_id FROM stored.stack_nodes WHERE node_id IN (SELECT unnest(?::BIGINT[]))
                UNION SELECT s.node_id, s.parent_id FROM stored.stack_nodes s JOIN needed n ON s.node_id = n.parent_id
            )
            SELECT s.node_id, coalesce(s.parent_id, -1), f.text, p.text, s.kind::INTEGER
            FROM stored.stack_nodes s JOIN needed n USING (node_id)
            JOIN stored.names f ON f.name_id = s.frame LEFT JOIN stored.names p ON p.name_id = s.file""",
            [wanted],
        ).fetchall()
        self._nodes: dict[int, tuple[int, str, str | None, int | None]] = {r[0]: r[1:] for r in rows}

    def chain(self, node: int) -> list[tuple[str, str | None, int | None]]:
        """(frame, file, kind) from the outermost to the node; empty for -1."""
        out = []
        while node >= 0:
            parent, frame, file, kind = self._nodes[node]
            out.append((frame, file, kind))
            node = parent
        return out[::-1]

    def frames(self, node: int) -> list[str]:
        """Texts of the frames, outermost first."""
        return [frame for frame, _, _ in self.chain(node)]

    def blame(self, node: int) -> str | None:
        """The innermost frame of the user's own code; none: the innermost range of the user; else None."""
        chain = self.chain(node)
        for frame, file, kind in reversed(chain):
            if kind == EventKind.PYTHON_FRAME and is_user_file(file, self._user_code):
                return frame
        for frame, _, kind in reversed(chain):
            if kind == EventKind.RANGE and not _FRAMEWORK_RANGE.match(frame):
                return frame
        return None


_FRAMEWORK_RANGE = re.compile(
    r"(?:\w+::|nccl:|gloo:|Optimizer\.|autograd|DistributedDataParallel\.|FullyShardedDataParallel|FSDP|"
    r"enumerate\(DataLoader\)|Torch-Compiled|## |PyTorch Profiler|dataloader|\w*Backward\d*$)"
)
"""Ranges that frameworks make themselves: nobody wrote them into the user's code."""
