"""The ways of sharing a job among ranks: each makes the part of a step that one rank does.

Steps end with a synchronisation of the device, so that hosts do not run ahead of what is captured.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
import torch.nn.functional as F
from recording.groups import data_groups, tensor_group_size, tensor_groups

Step = Callable[[], None]
Link = tuple[int, dist.ProcessGroup] | None
"""A neighbour of a stage, and the group of the two."""


@dataclass
class Part:
    """One rank of a job: its device, and how much it computes and communicates in a step.

    `dim` is the width of activations, `width` that of hidden layers, `rows` the batch whose activations are
    communicated, and `repeats` how often they are computed before. `training_rows` is the batch where only gradients
    are communicated. More rows or repeats mean more compute for the same communication, so that a slow network does not
    hide it.
    """

    rank: int
    world: int
    device: torch.device
    dim: int
    width: int
    rows: int
    layers: int
    repeats: int
    training_rows: int
    extra_work: float = 0.0
    groups: dict[tuple[int, ...], dist.ProcessGroup] = field(default_factory=dict)

    def random(self, *shape: int) -> torch.Tensor:
        """Normal numbers on the device."""
        return torch.randn(*shape, device=self.device, dtype=torch.bfloat16)

    def weight(self, *shape: int) -> torch.Tensor:
        """Weights that keep the size of what they are multiplied with."""
        return self.random(*shape) / math.sqrt(shape[0])

    def extra_rows(self, rows: int) -> int:
        """Rows that the rank works on beyond its part, or 0."""
        return round(rows * self.extra_work)

    def own_group(self, groups: list[list[int]], name: str) -> dist.ProcessGroup | None:
        """Of some groups the one that the rank is in."""
        made = [(ranks, self.group(ranks, name)) for ranks in groups]
        return next((group for ranks, group in made if self.rank in ranks), None)

    def group(self, ranks: list[int], name: str) -> dist.ProcessGroup:
        """The group of some ranks; every rank of the job asks for all groups, in one order."""
        key = tuple(ranks)
        if key not in self.groups:
            self.groups[key] = dist.new_group(ranks, group_desc=name)
        return self.groups[key]


def mlp(part: Part) -> torch.nn.Sequential:
    """Layers of one width."""
    layers: list[torch.nn.Module] = []
    for _ in range(part.layers):
        layers += [torch.nn.Linear(part.dim, part.dim), torch.nn.GELU()]
    return torch.nn.Sequential(*layers).to(part.device, torch.bfloat16)


def training_step(part: Part, model: torch.nn.Module, **options: bool) -> Step:
    """Forward, backward and optimizer; a rank with more work has more rows."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **options)
    rows = part.training_rows + part.extra_rows(part.training_rows)
    batch, target = part.random(rows, part.dim), part.random(rows, part.dim)

    def train_step() -> None:
        with region("forward"):
            loss = F.mse_loss(model(batch), target)
        with region("backward"):
            loss.backward()
        with region("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return train_step


def data_parallel(part: Part) -> Step:
    """Each rank has the whole model: gradients are reduced over all ranks while the backward pass runs."""
    devices = [part.device.index] if part.device.type == "cuda" else None
    # Small buckets, so that there is something to overlap.
    bucket_mb = max(1, part.dim * part.dim * 2 * 2 // 2**20)
    model = torch.nn.parallel.DistributedDataParallel(mlp(part), device_ids=devices, bucket_cap_mb=bucket_mb)
    return training_step(part, model, fused=part.device.type == "cuda")


def fully_sharded(part: Part) -> Step:
    """Each rank has a share of every layer: all-gathers before, reduce-scatters after."""
    from torch.distributed.fsdp import fully_shard

    model = mlp(part)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    return training_step(part, model)


def two_groups(part: Part) -> Step:
    """Tensor-parallel groups of neighbours reduce activations; data-parallel groups across them reduce gradients."""
    tensor = part.own_group(tensor_groups(part.world), "tensor_parallel")
    data = part.own_group(data_groups(part.world), "data_parallel")
    width = part.width // tensor_group_size(part.world)
    up = [part.weight(part.dim, width) for _ in range(part.layers)]
    down = [part.weight(width, part.dim) for _ in range(part.layers)]
    gradients = [torch.empty(2, part.dim, width, device=part.device, dtype=torch.bfloat16) for _ in up]
    scratch = torch.empty_like(gradients[0])
    batch, extra = part.random(part.rows, part.dim), part.random(part.extra_rows(part.rows), part.dim)

    def layer_forward(x: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(part.repeats):
            hidden = F.gelu(x @ up[layer])
            out = hidden @ down[layer]
        return hidden, out

    def layer_backward(
        x: torch.Tensor, hidden: torch.Tensor, gradient: torch.Tensor, layer: int, into: torch.Tensor
    ) -> torch.Tensor:
        for _ in range(part.repeats):
            of_hidden = gradient @ down[layer].T
            into[1] = (hidden.T @ gradient).view(part.dim, width)
            into[0] = x.T @ of_hidden
            out = of_hidden @ up[layer].T
        return out

    def train_step() -> None:
        x, inputs = batch, []
        with region("forward"):
            for layer in range(part.layers):
                hidden, out = layer_forward(x, layer)
                inputs.append((x, hidden))
                if len(extra):
                    extra_hidden, extra_out = layer_forward(extra, layer)
                dist.all_reduce(out, group=tensor)
                x = out
        works = []
        with region("backward"):
            gradient = x
            for layer in reversed(range(part.layers)):
                gradient = layer_backward(*inputs[layer], gradient, layer, gradients[layer])
                if len(extra):
                    layer_backward(extra, extra_hidden, extra_out, layer, scratch)
                dist.all_reduce(gradient, group=tensor)
                works.append(dist.all_reduce(gradients[layer], group=data, async_op=True))
        with region("optimizer"):
            for layer, work in zip(reversed(range(part.layers)), works, strict=True):
                work.wait()
                up[layer].add_(gradients[layer][0], alpha=-1e-9)
                down[layer].add_(gradients[layer][1].view(width, part.dim), alpha=-1e-9)

    return train_step


def all_to_all(part: Part) -> Step:
    """Experts: each rank sends a share of its tokens to every other, works on what it got, and sends it back."""
    rows = part.rows // part.world * part.world
    tokens, received = part.random(rows, part.dim), part.random(rows, part.dim)
    returned = torch.empty_like(tokens)
    up, down = part.weight(part.dim, part.width), part.weight(part.width, part.dim)
    extra = part.random(part.extra_rows(rows), part.dim)

    def run_expert(x: torch.Tensor) -> torch.Tensor:
        for _ in range(part.repeats):
            out = F.gelu(x @ up) @ down
        return out

    def exchange_step() -> None:
        for _ in range(part.layers):
            with region("dispatch"):
                dist.all_to_all_single(received, tokens)
            with region("expert"):
                results = run_expert(received)
                if len(extra):
                    run_expert(extra)
            with region("combine"):
                dist.all_to_all_single(returned, results)

    return exchange_step


def pipeline(part: Part) -> Step:
    """Stages: each rank receives activations from the one before it, and gradients from the one after it."""
    microbatches = 4
    rows, passes = part.rows // microbatches, max(1, part.repeats // microbatches)
    up = [part.weight(part.dim, part.width) for _ in range(part.layers)]
    down = [part.weight(part.width, part.dim) for _ in range(part.layers)]
    first, inbox = part.random(rows, part.dim), [part.random(rows, part.dim) for _ in range(microbatches)]
    extra = part.random(part.extra_rows(rows), part.dim)
    # A group for each pair of neighbours, so that one link does not wait for another.
    links = [part.group([rank, rank + 1], "pipeline") for rank in range(part.world - 1)]
    before = (part.rank - 1, links[part.rank - 1]) if part.rank else None
    after = (part.rank + 1, links[part.rank]) if part.rank + 1 < part.world else None

    def run_stage(x: torch.Tensor, *, backward: bool) -> torch.Tensor:
        for layer in range(part.layers):
            for _ in range(passes * (2 if backward else 1)):
                out = F.gelu(x @ up[layer]) @ down[layer]
            x = out
        return x

    def stage_step(source: Link, sink: Link, *, backward: bool) -> None:
        for microbatch in range(microbatches):
            x = first
            if source is not None:
                x = inbox[microbatch]
                dist.recv(x, source[0], group=source[1])
            x = run_stage(x, backward=backward)
            if len(extra):
                run_stage(extra, backward=backward)
            if sink is not None:
                dist.send(x, sink[0], group=sink[1])

    def train_step() -> None:
        with region("forward"):
            stage_step(before, after, backward=False)
        with region("backward"):
            stage_step(after, before, backward=True)

    return train_step


@contextlib.contextmanager
def region(name: str) -> Iterator[None]:
    """A range with a name, for torch.profiler and for Nsight Systems."""
    on_device = torch.cuda.is_available()
    if on_device:
        torch.cuda.nvtx.range_push(name)
    try:
        with torch.profiler.record_function(name):
            yield
    finally:
        if on_device:
            torch.cuda.nvtx.range_pop()


PATTERNS: dict[str, Callable[[Part], Step]] = {
    build.__name__: build for build in (data_parallel, fully_sharded, two_groups, all_to_all, pipeline)
}
