"""What takes long and comes out the same each time is made once in a run of the tests: empty stores, and stores of the
real traces, which the processes of a run share in one folder."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.support.real_traces import STORES
from traceanalyzer.store import database

REAL_MAKE = database._make
PREFIX = "traceanalyzer-stores-"


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        return  # it has the folder from the process that started it
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if not is_running(left.name.removeprefix(PREFIX).partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)  # hundreds of megabytes, of a run that was killed
    folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
    os.environ[STORES] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def is_running(process: str) -> bool:
    """Whether there is a process of this number; True where it cannot be known."""
    if os.name != "posix" or not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@pytest.fixture(scope="session", autouse=True)
def _new_stores_are_copies(tmp_path_factory):
    """To make a store takes 50 times as long as to copy an empty one, which hundreds of tests would do."""
    template = tmp_path_factory.mktemp("new") / "empty.duckdb"
    REAL_MAKE(template)

    def make(path: Path) -> None:
        if not path.parent.is_dir():
            return REAL_MAKE(path)  # which says so
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        shutil.copyfile(template, fresh)
        database._put_in_place(fresh, path)
        return fresh.unlink(missing_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_make", make)
        yield


@pytest.fixture
def stores_made_anew(monkeypatch):
    """New stores are made as outside of tests, for tests of just that."""
    monkeypatch.setattr(database, "_make", REAL_MAKE)
