"""Some mutated inputs of every source, the same in every run; `python -m tests.fuzz` tries as many as one likes."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.harness import attempt
from tests.fuzz.inputs import ROOT, inputs
from tests.fuzz.mutations import MUTATIONS

EXAMPLES = 25


@pytest.mark.parametrize("source", sorted(MUTATIONS))
def test_mutated_inputs_are_answered_or_refused_in_one_line(source):
    if not inputs(source):
        pytest.skip("what reads them is not installed")

    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
    @given(st.sampled_from(inputs(source)), st.sampled_from(MUTATIONS[source]), st.integers(0, 2**32 - 1))
    def check(item, mutation, seed):
        outcome = attempt(item, mutation, seed)
        assert not outcome.wrong, f"{outcome.wrong}: {outcome.detail}"

    check()


def test_nothing_is_left_behind(tmp_path):
    command = [sys.executable, "-m", "tests.fuzz", "--count", "2", "--source", "ncu"]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"TMPDIR": str(tmp_path)}, cwd=ROOT)
    assert not list(tmp_path.iterdir())
