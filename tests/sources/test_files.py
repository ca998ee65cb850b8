"""Files as they lie: plain, gzipped, zipped, cut and damaged."""

import gzip
import random
import threading
import zipfile
from pathlib import Path

import pytest

from traceanalyzer.errors import SourceError
from traceanalyzer.sources.files import TraceFile

_NOISE = random.Random(7).randbytes(300_000)
_CONTENTS = [b"", b"x", b"a" * 3_000_000, _NOISE, _NOISE + b"\x00" * 2_000_000]


def _content(path: Path, size: int = 1 << 20) -> tuple[bytes, TraceFile]:
    file = TraceFile(path)
    return b"".join(file.blocks(size)), file


@pytest.mark.parametrize("size", [1 << 10, 1 << 16, 1 << 20])
@pytest.mark.parametrize("content", _CONTENTS, ids=["empty", "one", "runs", "noise", "mixed"])
def test_every_packing_gives_the_same_content(tmp_path: Path, content: bytes, size: int) -> None:
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "one.gz").write_bytes(gzip.compress(content))
    half = len(content) // 2
    (tmp_path / "two.gz").write_bytes(gzip.compress(content[:half]) + gzip.compress(content[half:]) + b"\x00" * 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/t.json", content)
    for name in ("plain", "one.gz", "two.gz", "a.zip"):
        got, file = _content(tmp_path / name, size)
        assert got == content, name
        assert file.damage is None and file.remark is None, name


def test_output_that_is_pending_when_all_input_is_read(tmp_path: Path) -> None:
    # 3 MB of one letter pack into 3 kB: all of it is read long before it is unpacked.
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a" * 3_000_000))
    got, file = _content(tmp_path / "a.gz", 1000)
    assert len(got) == 3_000_000 and file.damage is None


def test_a_cut_gzip_file_gives_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(_NOISE)[:150_000])
    got, file = _content(tmp_path / "a.gz")
    assert _NOISE.startswith(got) and len(got) > 100_000
    assert file.damage == "the gzip data ends early"


def test_a_cut_zip_file_gives_what_is_there(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.json", _NOISE)
    whole = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(whole[:150_000])
    got, file = _content(tmp_path / "a.zip")
    assert _NOISE.startswith(got) and len(got) > 100_000
    assert file.damage == "the zip data ends early"


def test_bytes_after_the_gzip_data_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"hello") + b"rubbish")
    got, file = _content(tmp_path / "a.gz")
    assert got == b"hello" and file.damage is None and file.remark is not None


def test_damaged_gzip_data_is_told(tmp_path: Path) -> None:
    raw = bytearray(gzip.compress(_NOISE))
    raw[-6] ^= 255
    (tmp_path / "a.gz").write_bytes(bytes(raw))
    _got, file = _content(tmp_path / "a.gz")
    assert file.damage is not None and "damaged" in file.damage


def test_archives_of_several_files_and_missing_files_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.json", "{}")
        archive.writestr("2.json", "{}")
    with pytest.raises(SourceError, match="2 files"):
        _content(tmp_path / "a.zip")
    with pytest.raises(SourceError, match="no such file"):
        TraceFile(tmp_path / "none.json")
    with pytest.raises(SourceError, match="not a file"):
        TraceFile(tmp_path)


def test_progress_adds_up_to_the_size(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(_NOISE))
    told: list[int] = []
    file = TraceFile(tmp_path / "a.gz", told.append)
    for _block in file.blocks():
        pass
    assert sum(told) == file.size


def test_head_stem_and_a_path_on_disk(tmp_path: Path) -> None:
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(_NOISE))
    file = TraceFile(tmp_path / "t.json.gz")
    assert file.head == _NOISE[: 1 << 16] and file.stem == "t.json"
    with file.on_disk() as path:
        assert path.read_bytes() == _NOISE


@pytest.mark.parametrize("content", [b"", b"x", _NOISE, b"0123456789" * 200_000])
@pytest.mark.parametrize("size", [7_000, 1 << 20])
def test_reading_ahead_gives_the_same_blocks(tmp_path: Path, content: bytes, size: int) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(content[:50_000]) + gzip.compress(content[50_000:]) + b"rubbish")
    told: list[int] = []
    plain, ahead = TraceFile(tmp_path / "a.gz"), TraceFile(tmp_path / "a.gz", told.append)
    assert list(ahead.blocks_ahead(size, 2)) == list(plain.blocks(size))
    assert (ahead.damage, ahead.remark) == (plain.damage, plain.remark)
    assert sum(told) == ahead.size


def test_reading_ahead_ends_where_nobody_takes_more(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(_NOISE))
    before = threading.active_count()
    blocks = TraceFile(tmp_path / "a.gz").blocks_ahead(1_000, 1)
    next(blocks)
    blocks.close()
    assert threading.active_count() == before


def test_an_error_of_reading_ahead_reaches_the_reader(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.json", "{}")
        archive.writestr("2.json", "{}")
    with pytest.raises(SourceError, match="2 files"):
        list(TraceFile(tmp_path / "a.zip").blocks_ahead())


def test_how_long_the_content_is(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"0" * 1000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"0" * 100_000))
    assert TraceFile(tmp_path / "plain").text_bytes == 1000
    assert TraceFile(tmp_path / "a.gz").text_bytes == 100_000
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes((tmp_path / "a.gz").read_bytes()[:-1] + b"\xff")
    assert TraceFile(damaged).text_bytes == 1032 * damaged.stat().st_size
