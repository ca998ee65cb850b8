"""Files of throughputs: what is read of them, and that nothing unclear is."""

import gzip
import zipfile

import pytest

from traceanalyzer.errors import SourceError
from traceanalyzer.sources.throughputs import holds_throughputs, read_throughputs

PLAIN = "ranks,throughput\n1,100\n2,180.5\n"
FOUND = {1: 100.0, 2: 180.5}


@pytest.fixture
def written(tmp_path):
    def write(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.rstrip("\n"),
        "\n , \n" + PLAIN.replace("\n", "\n\n"),
        " ranks , throughput \n 1 , 100 \n 2 , 180.5 \n",
        "throughput,ranks\n100,1\n180.5,2\n",
        "Ranks,Throughput\n2,180.5\n1,100\n",
        'job,ranks,note,throughput,when\na,1,,100,\nb,2,"two, with\nline ends",180.5\n',
        '"ranks","throughput"\n"1","100"\n"2", "180.5"\n',
        "ranks,throughput\n01,+1e2\n2,1805E-1,,\n",
    ],
)
def test_what_is_meant_is_read(written, text):
    assert read_throughputs(written(text)) == (FOUND, [])


def test_packed_files_are_read(written, tmp_path):
    assert read_throughputs(written(gzip.compress(PLAIN.encode()), "t.csv.gz"))[0] == FOUND
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", PLAIN)
    assert read_throughputs(tmp_path / "t.zip")[0] == FOUND


def test_bytes_after_the_end_are_said(written):
    path = written(gzip.compress(PLAIN.encode()) + b"more", "t.csv.gz")
    assert read_throughputs(path) == (FOUND, [f"{path}: bytes after the end of the gzip data were left out"])


HEADER = "ranks,throughput\n"
BAD = {
    "is empty; write the header ranks,throughput and beneath it one row for each number of ranks": [
        "",
        "\n \n",
        "\ufeff",
    ],
    "has no row beneath its header": [HEADER, "ranks,throughput\n,\n"],
    "the first line names no column throughput;": ["ranks,speed\n1,2\n", "ranks\n1\n"],
    "the first line names no column ranks and no column throughput;": ["1,100\n2,180\n", "ranks;throughput\n1;2\n"],
    "the first line names the column ranks more than once": ["ranks,throughput,Ranks\n1,2,1\n"],
    "line 2: ranks '0' is no whole number of 1 or more": [HEADER + "0,5\n"],
    "line 3: ranks '-2' is no whole": [HEADER + "1,5\n-2,5\n"],
    "line 2: ranks '2.0' is no whole": [HEADER + "2.0,5\n"],
    "line 2: ranks '٢' is no whole": [HEADER + "٢,5\n"],
    "line 2: ranks (nothing) is no whole": [HEADER + ",5\n"],
    "line 2: ranks '9999999999999999999' is no whole": [HEADER + "9999999999999999999,5\n"],
    "line 2: throughput (nothing) is no positive number": [HEADER + "1,\n", HEADER + "1\n"],
    "line 2: throughput '0' is no positive number": [HEADER + "1,0\n"],
    "line 2: throughput '-1' is no positive": [HEADER + "1,-1\n"],
    "line 2: throughput 'nan' is no positive": [HEADER + "1,nan\n"],
    "line 2: throughput 'inf' is no positive": [HEADER + "1,inf\n"],
    "line 2: throughput '1e999' is no positive": [HEADER + "1,1e999\n"],
    "line 2: throughput '1e-300' is no positive": [HEADER + "1,1e-300\n"],
    "line 2: throughput '1_000' is no positive": [HEADER + "1,1_000\n"],
    "line 2: throughput '1,000' is no positive": [HEADER + '1,"1,000"\n'],
    "line 2: throughput '\\x1b[31m' is no positive": [HEADER + "1,\x1b[31m\n"],
    "line 2: throughput '\\x005' is no positive": [HEADER + "1,\x005\n"],
    f"line 2: throughput '{'9' * 40}...' is no positive": [HEADER + f"1,{'9' * 5000}\n"],
    "line 3 has 4 values under 2 columns; write numbers without separators": [HEADER + "1,5\n2,1,778,665\n"],
    "line 4 tells of 2 ranks again, as line 3 does": [HEADER + "1,5\n2,9\n02,10\n"],
    "line 3 is not text in UTF-8": [HEADER.encode() + b"1,5\n2,\xff\n"],
    "line 1 is not text in UTF-8": [PLAIN.encode("utf-16")],
    "is no CSV": [HEADER + '1,"5\n', HEADER + '1,"5"6\n'],
    "is too long for a file of throughputs": [HEADER + "1,5\n" * 400_000, gzip.compress(b" " * (1 << 24))],
    "the gzip data ends early; give the file again when it is whole": [gzip.compress(PLAIN.encode())[:-4]],
    "the gzip data is damaged": [gzip.compress(PLAIN.encode())[:-8] + bytes(8)],
}


@pytest.mark.parametrize(
    ("says", "content"),
    [pytest.param(says, content, id=f"{says}-{k}") for says, all_of in BAD.items() for k, content in enumerate(all_of)],
)
def test_what_is_unclear_is_refused(written, says, content):
    path = written(content)
    with pytest.raises(SourceError) as caught:
        read_throughputs(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and says in text and len(text.splitlines()) == 1 and "; " in text


def test_a_file_that_cannot_be_opened_is_said(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        read_throughputs(tmp_path / "absent.csv")
    with pytest.raises(SourceError, match="not a file"):
        read_throughputs(tmp_path)


def test_such_a_file_is_known_by_its_name_or_its_header(written, tmp_path):
    for name in ("a.csv", "a.CSV.GZ", "a.csv.zip"):
        assert holds_throughputs(written("x", name))
    assert holds_throughputs(tmp_path / "absent.csv")
    assert holds_throughputs(written("\ufeff\nthroughput, ranks\n", "rates.txt"))
    assert not holds_throughputs(written("{}", "trace.json"))
    assert not holds_throughputs(written(b"\x1f\x8b", "trace.json.gz"))
    assert not holds_throughputs(written('"', "quote"))
    assert not holds_throughputs(tmp_path / "absent.json")
    (tmp_path / "folder.csv").mkdir()
    assert not holds_throughputs(tmp_path / "folder.csv")
