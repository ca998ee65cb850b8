"""Which frames and ranges are the user's own, and which those of libraries and frameworks."""

import re
import sys
from pathlib import PurePosixPath

_INSTALLED = re.compile(r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)lib(?:64)?/python\d+(?:\.\d+)?/|^<|^\?$")

LIBRARIES = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "torchdata",
        "torch_xla",
        "triton",
        "functorch",
        "numpy",
        "scipy",
        "pandas",
        "PIL",
        "cv2",
        "sklearn",
        "matplotlib",
        "transformers",
        "accelerate",
        "datasets",
        "tokenizers",
        "diffusers",
        "peft",
        "timm",
        "safetensors",
        "huggingface_hub",
        "bitsandbytes",
        "trl",
        "deepspeed",
        "lightning",
        "pytorch_lightning",
        "lightning_fabric",
        "torchmetrics",
        "megatron",
        "apex",
        "transformer_engine",
        "flash_attn",
        "xformers",
        "vllm",
        "sglang",
        "einops",
        "jax",
        "jaxlib",
        "flax",
        "cupy",
        "numba",
        "cuda",
        "nvtx",
        "tensorboard",
        "wandb",
        "mlflow",
        "ray",
        "dask",
        "tqdm",
        "IPython",
        "ipykernel",
        "traitlets",
        "tornado",
        "click",
        "absl",
        "hydra",
        "omegaconf",
        "fsspec",
        "pyarrow",
        "polars",
        "pydantic",
        "pluggy",
        "pytest",
        "_pytest",
        "multiprocess",
        "dill",
        "cloudpickle",
        "joblib",
    ]
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


_FRAMEWORK_RANGE = re.compile(
    r"(?:\w+::|nccl:|gloo:|Optimizer\.|autograd|DistributedDataParallel\.|FullyShardedDataParallel|FSDP|"
    r"enumerate\(DataLoader\)|Torch-Compiled|## |PyTorch Profiler|dataloader|\w*Backward\d*$)"
)
"""Ranges that frameworks make themselves: nobody wrote them into the user's code."""


def is_framework_range(name: str) -> bool:
    """Whether a range of this name is one that frameworks make themselves."""
    return _FRAMEWORK_RANGE.match(name) is not None
