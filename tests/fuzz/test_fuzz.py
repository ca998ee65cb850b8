"""Some mutated inputs of every source, the same in every run; `python -m tests.fuzz` tries as many as one likes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.harness import attempt
from tests.fuzz.inputs import inputs
from tests.fuzz.mutations import MUTATIONS

EXAMPLES = 40


@pytest.mark.parametrize("source", sorted(MUTATIONS))
def test_mutated_inputs_are_answered_or_refused_in_one_line(source):
    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None)
    @given(st.sampled_from(inputs(source)), st.sampled_from(MUTATIONS[source]), st.integers(0, 2**32 - 1))
    def check(item, mutation, seed):
        outcome = attempt(item, mutation, seed)
        assert not outcome.wrong, f"{outcome.wrong}: {outcome.detail}"

    check()
