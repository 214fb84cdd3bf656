"""Test the forms of the containers in turn, by the commands that the README gives.

`make test-forms` runs this file; no tier of the tests does, as it takes 20 minutes.
"""

import pytest

from tests.containers.stack import Stack, output_of
from tests.containers.test_stack import (
    assert_all_is_right,
    await_every_rule_and_more,
    seen_rules,
)
from tests.demo import RULES_IN_BOTH_STATES
from tests.support import eventually

pytestmark = [pytest.mark.timeout(7200), pytest.mark.profiles("cluster", "brokers")]


def make(stack: Stack, target: str) -> None:
    """Run a target of make on the stack's project, which must succeed."""
    done = output_of(["make", "--no-print-directory", target], stack.env, timeout_s=900)
    print(f"\nmake {target}\n{done.stdout}")  # noqa: T201 - what a user sees
    assert done.returncode == 0, done.stderr[-2000:]


def await_something_to_judge(stack: Stack) -> None:
    """Wait until a new form has sent its history and alerted by every rule in both states."""
    stack.await_history()
    eventually(lambda: seen_rules(stack), RULES_IN_BOTH_STATES.__le__, timeout_s=600)


def test_each_form_starts_resumes_and_is_right(stack: Stack) -> None:
    make(stack, "up")
    await_something_to_judge(stack)
    stack.compact("micro-batch", "single-broker")
    assert_all_is_right(stack)
    make(stack, "down")
    # The two forms share topics, ledger and alerts.
    make(stack, "up")
    await_every_rule_and_more(stack)
    assert_all_is_right(stack)
    make(stack, "up-cluster")
    await_every_rule_and_more(stack)
    stack.compact("cluster-micro-batch", "cluster")
    assert_all_is_right(stack)
    make(stack, "up-brokers")
    await_something_to_judge(stack)
    stack.compact("micro-batch", "three-brokers")
    assert_all_is_right(stack)
    make(stack, "down")
