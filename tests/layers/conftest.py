"""What the tests of the compiled library share."""

from collections.abc import Iterator

import pytest

from regard.layers.native import native


@pytest.fixture
def afresh() -> Iterator[None]:
    """The library is looked for again, in this test and after it."""
    native.cache_clear()
    yield
    native.cache_clear()
