"""What columns of training logs are called, and what they mean."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a column tells. The value is the metric that it becomes; STEP and TIME become none of themselves."""

    STEP = "step"
    TIME = "time"
    STEP_TIME = "step_time"
    LOADER_TIME = "loader_time"
    SAMPLES = "samples"
    SAMPLES_PER_SECOND = "samples_per_second"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens_per_second"
    TFLOPS = "tflops"
    LOSS = "loss"


_NAMES = {
    Role.STEP: "step steps iteration iterations iter it global_step train_step step_number step_idx batch batch_idx"
    " batch_index batch_id batch_number",
    Role.TIME: "time elapsed elapsed_time wall_time walltime wall_clock timestamp train_time relative_time seconds"
    " total_time",
    Role.STEP_TIME: "step_time iter_time iteration_time batch_time step_duration iteration_duration duration"
    " time_per_step time_per_iteration elapsed_time_per_iteration dt train_step_time time/step",
    Role.LOADER_TIME: "loader loader_time loader_only data_time dataloader dataloader_time data_loader data_loader_time"
    " dataload_time data_load_time data_loading_time load_time loading_time data_wait data_wait_time fetch_time"
    " loader_wait loader_wait_time",
    Role.SAMPLES: "samples n_samples num_samples samples_per_step batch_size global_batch_size images sequences",
    Role.SAMPLES_PER_SECOND: "samples_per_second samples_per_sec samples_per_s samples/s samples/sec samples/second"
    " samples_sec images_per_second images_per_sec images/s images/sec img/s imgs/s examples_per_second examples/s"
    " sequences_per_second sequences/s train_samples_per_second",
    Role.TOKENS: "tokens n_tokens num_tokens tokens_per_step",
    Role.TOKENS_PER_SECOND: "tokens_per_second tokens_per_sec tokens_per_s tokens/s tokens/sec tokens/second tok/s"
    " tok/sec toks/s tokens_sec train_tokens_per_second",
    Role.TFLOPS: "tflops tflop/s tflops/s tflops_per_gpu tflops/gpu tflop/s/gpu throughput_per_gpu_tflop/s/gpu"
    " model_tflops",
    Role.LOSS: "loss train_loss training_loss lm_loss train/loss",
}
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "minutes"), 60.0),
}
_IN_BRACKETS = re.compile(r"\s*[(\[]\s*([A-Za-z/%]+)\s*[)\]]\s*$")
_OF_TIME = frozenset({Role.TIME, Role.STEP_TIME, Role.LOADER_TIME})
_ELAPSED = frozenset({"elapsed", "elapsed_time", "wall_time", "walltime", "wall_clock", "train_time", "relative_time"})
_ELAPSED |= {"total_time"}
UNITS = {
    Role.STEP_TIME: "s",
    Role.LOADER_TIME: "s",
    Role.SAMPLES_PER_SECOND: "samples/s",
    Role.TOKENS_PER_SECOND: "tokens/s",
    Role.TFLOPS: "TFLOP/s",
}
"""Unit of each metric that has one."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name means. `seconds` is what one of its unit is, None where no unit is told or it is no time.

    `elapsed` says that the name itself tells that time runs on from row to row.
    """

    name: str
    role: Role | None
    unit: str | None = None
    seconds: float | None = None
    elapsed: bool = False


def meaning_of(name: str) -> Meaning:
    """What a column or key means, by its name and the unit in it: `time`, `step_time_ms`, `elapsed time (s)`."""
    shown = name.strip().strip('"').lstrip("#").strip()
    plain = _plain(shown)
    if role := _ROLE_OF.get(plain):
        return Meaning(shown, role, seconds=1.0 if plain == "seconds" else None, elapsed=plain in _ELAPSED)
    bracket = _IN_BRACKETS.search(shown)
    if bracket:
        unit, rest = bracket[1], _plain(shown[: bracket.start()])
    else:
        rest, _, unit = plain.rpartition("_")
    role = _ROLE_OF.get(rest)
    seconds = _SECONDS.get(unit.lower())
    if role is not None and (bracket or (role in _OF_TIME and seconds is not None)):
        return Meaning(shown, role, unit, seconds if role in _OF_TIME else None, rest in _ELAPSED)
    return Meaning(shown, None, unit if bracket else None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9/]+", "_", name.strip().lower()).strip("_")


def seconds_of(unit: str) -> float | None:
    """What one of a unit of time is in seconds; None for other units."""
    return _SECONDS.get(unit.lower())


def in_seconds(value: float, seconds: float) -> float:
    """A time in seconds, correctly rounded: 412.5 ms are 0.4125 s."""
    return value * seconds if seconds >= 1 else value / round(1 / seconds)
