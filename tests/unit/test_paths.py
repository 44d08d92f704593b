"""Paths as people write them."""

from pathlib import Path

import pytest

from gradscope.core.paths import home_expanded
from gradscope.errors import GradscopeError


def test_a_home_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert home_expanded("~/data") == Path("/home/me/data")
    assert home_expanded("data/~") == Path("data/~")


def test_nobodys_home_is_an_error_with_a_remedy():
    with pytest.raises(GradscopeError, match="no home folder for ~nobody-of-that-name/x"):
        home_expanded("~nobody-of-that-name/x")
