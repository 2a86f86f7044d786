"""Only safe addresses are asked; what a server then does is tested with `regard get` (tests/cli/test_get.py)."""

import pytest

from regard.data.download import check_address, host
from regard.errors import UserError

SAFE = ["https://example.org/a", "http://127.0.0.1:8000", "http://localhost/a", "http://[::1]:80/"]
UNSAFE = ["http://example.org", "http://127.0.0.1@example.org", "http://localhost.example.org", "ftp://127.0.0.1"]
UNSAFE += ["file:///etc", "example.org", "https://", "http://[::1", ""]


@pytest.mark.parametrize("url", SAFE)
def test_https_and_this_computer_are_asked(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize("url", UNSAFE)
def test_every_other_address_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="only https://"):
        check_address(url)


@pytest.mark.parametrize("url", ["https://me:secret@example.org/a", "http://me:secret@127.0.0.1:80/a"])
def test_an_address_with_a_password_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UserError, match="has a name or a password in it") as caught:
        check_address(url)
    assert "secret" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    assert host("https://me:secret@example.org:8000/a") == "example.org:8000"
