"""How a failure begins: with a sentence that says what does not hold."""

import pytest

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("which", ["One of SEVERAL"])
def test_a_failure_begins_with_its_sentence(request: pytest.FixtureRequest, which: str) -> None:
    """Instead of its identifier: pytest heads a report with the last part of its location."""
    call = pytest.CallInfo.from_call(lambda: None, "call")
    report = request.node.ihook.pytest_runtest_makereport(item=request.node, call=call)
    assert report.head_line == f"A failure begins with its sentence [{which}]"
