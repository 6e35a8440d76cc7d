"""Files made to cost far more than they are: floods of keys, copies of copies, repeated bytes.

Each family is made by a generator: every way to fill a container with keys, every operation of a
pickle over and over, every place where a file's value is shown or multiplied.
"""

import io
import pickle
import signal
import struct
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest

import fx
from fx.errors import FileFormatError
from fx.io import inspection

FREE = 1 << 20  # what a file may always take, in these tests
SLACK = 4 << 20  # bytes of the reader itself: the file, its pickle, an archive's directory


def archive_of(pickled, compression=zipfile.ZIP_STORED, **records):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, data in records.items():
            archive.writestr(f"archive/data/{name.strip('_')}", data)
    return file


@contextmanager
def soon(seconds=10):
    """Fail instead of going on for ever: what is read here takes milliseconds."""

    def late(*_):
        raise AssertionError(f"reading a small file took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# keys -------------------------------------------------------------------------------------------

WORD = (1 << 64) - 1
P1, P2, P5 = 11400714785074694791, 14029467366897019727, 2870177450012600261


def pairs_of_one_hash(count):
    """Tuples of two integers, by solving the hash of tuples for the second."""
    out, first = [], 0
    wanted, inverse = 12345, pow(P2, -1, 1 << 64)
    while len(out) < count:
        first += 1
        state = P5 + first * P2 & WORD
        state = (state << 31 | state >> 33) * P1 & WORD
        # rotate(state + second * P2) * P1 is to be what is wanted
        goal = wanted * pow(P1, -1, 1 << 64) & WORD
        goal = goal >> 31 | goal << 33 & WORD
        second = (goal - state) * inverse & WORD
        if second < (1 << 61) - 1:
            out.append((first, second))
    assert len(set(map(hash, out))) == 1
    return out


def keys_of_one_chain(size=8192):
    """Integers of different hashes that search through the same places of a dict of this size."""
    chain = [0]  # the places that a search visits once the high bits of its hash are used up
    for _ in range(size // 3 - 1):
        chain.append((5 * chain[-1] + 1) % size)
    taken, early = np.zeros(size, bool), np.zeros(size, bool)
    taken[chain], early[chain[:1000]] = True, True
    rest = np.arange(1 << 21, 1 << 23)
    at, kept = rest % size, rest
    while kept.size and rest.any():
        kept, at, rest = kept[taken[at]], at[taken[at]], rest[taken[at]]
        rest = rest >> 5
        at = (5 * at + rest + 1) % size
    return chain + kept[early[at]][: size // 3 - 2].tolist()


FLOODS = {
    "complex numbers": [complex(-1000003.0 * j, j) for j in range(1500)],
    "tuples": pairs_of_one_hash(1500),
    "tuples of tuples": [(pair,) for pair in pairs_of_one_hash(1500)],
    "sets": [frozenset((pair,)) for pair in pairs_of_one_hash(1500)],
    "NumPy's complex numbers": [np.complex128(complex(-1000003.0 * j, j)) for j in range(1500)],
    "integers of one chain": keys_of_one_chain(),
}
HONEST = {
    "consecutive": list(range(6000)),
    "negative": list(range(-6000, 0)),
    "addresses": [i << 32 for i in range(5000)],
    "times": [1.7e9 + i / 3 for i in range(5000)],
    "pairs": [(i, j) for i in range(70) for j in range(70)],
    "grid": [complex(i, j) for i in range(70) for j in range(70)],
    "sets": [frozenset((i, j)) for i in range(70) for j in range(i)],
    "mixed": [k for i in range(1500) for k in (i, str(i), i + 0.5)],
}


def one_by_one(keys):
    out = b"\x80\x02}"
    for key in keys:
        out += pickle.dumps(key, 4)[2:-1].replace(b"\x94", b"") + b"Ns"
    return out + b"."


def called(name):
    """The pickle of a call with one list."""
    head = f"c{name.replace('builtins', '__builtin__').replace(':', chr(10))}\n".encode()
    return lambda values: b"\x80\x02" + head + pickle.dumps(values, 2)[2:-1] + b"\x85R."


WAYS = {
    "a dict": lambda keys: pickle.dumps(dict.fromkeys(keys), 2),
    "a dict, framed": lambda keys: pickle.dumps(dict.fromkeys(keys), 4),
    "a dict after others": lambda keys: pickle.dumps(
        dict.fromkeys([str(i) for i in range(999)] + list(keys)), 2
    ),
    "a set": lambda keys: pickle.dumps(set(keys), 4),
    "a frozen set": lambda keys: pickle.dumps(frozenset(keys), 4),
    "set(list)": lambda keys: called("builtins:set")(list(keys)),
    "frozenset(list)": lambda keys: called("builtins:frozenset")(list(keys)),
    "OrderedDict(list)": lambda keys: called("collections:OrderedDict")([(k, 0) for k in keys]),
    "Counter(list)": lambda keys: called("collections:Counter")([(k, 0) for k in keys]),
    "inside a list": lambda keys: pickle.dumps([{}, dict.fromkeys(keys)], 2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FLOODS)
def test_keys_that_collide(kind, way):
    if kind == "integers of one chain" and ("set" in way.lower() or "after" in way):
        return  # chosen for the places of a dict of their own
    with soon(), pytest.raises(FileFormatError, match="collide"):
        fx.load(archive_of(WAYS[way](FLOODS[kind])))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", HONEST)
def test_keys_that_do_not(kind, way):
    value = fx.load(archive_of(WAYS[way](HONEST[kind])))
    value = value[1] if way == "inside a list" else value
    assert set(HONEST[kind]) <= set(value)
    if "after" not in way:
        assert len(value) == len(HONEST[kind])


def test_keys_that_come_one_by_one():
    simple = [complex(-1000003.0 * j, j) for j in range(1500)]
    parts = b"".join(
        b"h\x00G" + struct.pack(">d", z.real) + b"G" + struct.pack(">d", z.imag) + b"\x86RNs"
        for z in simple
    )
    with soon(), pytest.raises(FileFormatError, match="collide"):
        fx.load(archive_of(b"\x80\x02c__builtin__\ncomplex\nq\x000}" + parts + b"."))


def test_sets_that_are_compared_for_ever():
    body = b"(tq\x00(tq\x01"  # two towers, equal and not the same: {(below, 0), (below, 1)}
    for i in range(0, 80, 2):
        for tower in (0, 1):
            below, out = i + tower, i + 2 + tower
            pair = b"h" + bytes([below])
            body += b"(" + pair + b"K\x00\x86" + pair + b"K\x01\x86\x91q" + bytes([out]) + b"0"
    with soon(), pytest.raises(FileFormatError, match="key of more than"):
        fx.load(archive_of(b"\x80\x04" + body + b"(h\x50h\x51\x91."))


def test_long_texts_that_are_compared_over_and_over(monkeypatch):
    monkeypatch.setattr(inspection, "_FREE", FREE)
    text = b"X" + struct.pack("<I", 100_000) + b"x" * 100_000
    body = b"}" + text + b"q\x00Ns" + text + b"q\x01Ns" + b"h\x01Ns" * 100_000
    with soon(), pytest.raises(FileFormatError, match="expand"):
        fx.load(archive_of(b"\x80\x02" + body + b"."))


# memory -----------------------------------------------------------------------------------------

LIST = b"](" + b"N" * 5000 + b"eq\x010"
TEXT = b"X" + struct.pack("<I", 50_000) + b"x" * 50_000 + b"q\x010"
BYTES = b"B" + struct.pack("<I", 50_000) + b"x" * 50_000 + b"q\x010"
DICT = b"}(" + b"".join(b"M" + struct.pack("<H", i) + b"N" for i in range(5000)) + b"uq\x010"
NAMED = b"}(" + b"".join(b"\x8c\x04%04dN" % i for i in range(5000)) + b"uq\x010"
NUMBERS = b"](" + b"".join(b"M" + struct.pack("<H", i) for i in range(5000)) + b"eq\x010"


def name(text):
    return b"c" + text.replace(":", "\n").encode() + b"\nq\x000"


STORED = b"cnumpy\ndtype\nX\x02\x00\x00\x00u1\x89\x88\x87Rq\x020"
ARRAY = b"h\x00c" + b"numpy\nndarray\nK\x00\x85C\x01b\x87R"
OVER_AND_OVER = {  # what comes first, and what is repeated
    "empty sets": (b"", b"\x8f"),
    "empty dicts": (b"", b"}"),
    "empty lists": (b"", b"]"),
    "marks": (b"", b"("),
    "numbers": (b"", b"M\xff\xff"),
    "floats": (b"", b"G" + bytes(8)),
    "long integers": (b"", b"\x8a\x01\x7f"),
    "texts of one character": (b"", b"\x8c\x04\xf0\x9f\x98\x80"),
    "bytes": (b"", b"C\x01b"),
    "byte arrays": (b"", b"\x96\x01" + bytes(7) + b"b"),
    "tuples": (b"", b"N\x85"),
    "empty frozen sets": (b"", b"(\x91"),
    "frozen sets": (b"", b"(K\x01\x91"),
    "nested tuples": (b"N", b"\x85"),
    "memoised sets": (b"", b"\x8f\x94"),
    "memo entries": (b"N", b"\x94"),
    "copies of the top": (b"N", b"2"),
    "dicts of one": (b"", b"}NNs"),
    "lists of one": (b"", b"]Na"),
    "sets of one": (b"", b"\x8f(K\x01\x90"),
    "one long dict": (b"}", b"(J\x01\x02\x03\x04Nu"),
    "one long list": (b"]", b"Na"),
    "ordered dicts": (name("collections:OrderedDict"), b"h\x00)R"),
    "counters": (name("collections:Counter"), b"h\x00)R"),
    "defaultdicts": (name("collections:defaultdict"), b"h\x00)R"),
    "deques": (name("collections:deque"), b"h\x00)R"),
    "complex numbers": (name("builtins:complex"), b"h\x00)R"),
    "sets that are called": (name("builtins:set"), b"h\x00)R"),
    "copies as sets": (name("builtins:set") + NUMBERS, b"h\x00h\x01\x85R"),
    "copies as frozen sets": (name("builtins:frozenset") + NUMBERS, b"h\x00h\x01\x85R"),
    "copies as deques": (name("collections:deque") + LIST, b"h\x00h\x01\x85R"),
    "copies as sizes": (name("torch:Size") + NUMBERS, b"h\x00h\x01\x85R"),
    "copies of dicts": (name("collections:OrderedDict") + DICT, b"h\x00h\x01\x85R"),
    "copies as counters": (name("collections:Counter") + DICT, b"h\x00h\x01\x85R"),
    "attributes": (name("collections:OrderedDict") + NAMED, b"h\x00)Rh\x01b"),
    "encoded texts": (name("_codecs:encode") + TEXT, b"h\x00h\x01\x85R"),
    "copies of bytes": (name("builtins:bytearray") + BYTES, b"h\x00h\x01\x85R"),
    "empty arrays": (name("numpy.core.multiarray:_reconstruct"), ARRAY),
    "arrays of one text": (
        name("numpy.core.multiarray:_reconstruct") + BYTES + STORED,
        ARRAY + b"(K\x01J\x50\xc3\x00\x00\x85h\x02\x89h\x01tb",
    ),
    "arrays of one buffer": (
        name("numpy.core.numeric:_frombuffer") + BYTES + STORED,
        b"h\x00(h\x01h\x02J\x50\xc3\x00\x00\x85X\x01\x00\x00\x00CtR",
    ),
    "dtypes": (name("numpy:dtype"), b"h\x00X\x02\x00\x00\x00f4\x85R"),
}  # fmt: skip


@pytest.mark.parametrize("case", OVER_AND_OVER)
def test_what_a_small_file_makes(case, monkeypatch):
    """However small the file, and whatever it makes: no more than the allowance."""
    monkeypatch.setattr(inspection, "_FREE", FREE)
    first, unit = OVER_AND_OVER[case]
    pickled = b"\x80\x04" + first + unit * (400_000 // len(unit)) + b"."
    file = archive_of(pickled, zipfile.ZIP_DEFLATED)
    most = FREE + 256 * len(file.getvalue()) + SLACK
    tracemalloc.start()
    try:
        with soon(60):
            fx.load(file)
    except FileFormatError as error:
        assert "expand" in str(error) or case == "nested tuples", error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < most, f"{peak} bytes for a file of {len(file.getvalue())}"


def test_many_containers_that_a_program_saves_are_read(monkeypatch):
    monkeypatch.setattr(inspection, "_FREE", 0)
    value = [[{}, [], set(), (i,), {"a": i}] for i in range(6000)]
    file = io.BytesIO()
    fx.save(value, file)
    assert fx.load(file) == value


# work that a short number or a short cut announces ---------------------------------------------


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def laughs(depth):
    body = b"]q\x00"
    for i in range(depth):
        body += b"0](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1])
    return body


def storage(kind="FloatStorage", key="0", count=b"K\x04"):
    named = b"ctorch\n" + kind.encode() + b"\n" + text(key) + text("cpu")
    return b"(" + text("storage") + named + count + b"tQ"


def tensor(size, stride, offset=b"K\x00", kind="FloatStorage", more=b"}", count=b"K\x04"):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(kind, count=count) + offset + size
            + stride + b"\x89" + more + b"tR")  # fmt: skip


HUGE = b"\x8b" + struct.pack("<i", 500_000) + b"\x7f" * 500_000 + b"q\x07"
SHARED = b"h\x07" * 60
FAR = b"\x8a\x06" + (1 << 40).to_bytes(6, "little")
REPEATED = FAR + b"\x85", b"K\x00\x85"
CONJ = b"}X\x04\x00\x00\x00conj\x88s"
DTYPE_CALL = b"cnumpy\ndtype\n"
ENDLESS = {
    "an array of texts of no size": b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    b"K\x00\x85C\x01b\x87R(K\x01" + FAR + b"\x85" + DTYPE_CALL + text("S0")
    + b"\x89\x88\x87R\x89C\x00tb",
    "a buffer of texts of no size": b"cnumpy.core.numeric\n_frombuffer\n(C\x00" + DTYPE_CALL
    + text("U0") + b"\x89\x88\x87R" + FAR + b"\x85tR",
    "a dtype that is a tower": laughs(60) + DTYPE_CALL + b"h\x3c\x85R",
    "an offset that is a tower": laughs(60) + tensor(b"K\x01\x85", b"K\x01\x85", b"h\x3c"),
    "a size that is a tower": laughs(60) + tensor(b"h\x3c", b"K\x01\x85"),
    "a device that is a tower": laughs(60) + b"ctorch\ndevice\n" + text("cuda") + b"h\x3c\x86R",
    "sizes of a million digits": HUGE + b"0" + tensor(
        b"(" + SHARED + b"t", b"(" + b"K\x01" * 60 + b"t"),
    "an array of such sizes": HUGE + b"0cnumpy.core.numeric\n_frombuffer\n(C\x00" + DTYPE_CALL
    + text("u1") + b"\x89\x88\x87R(" + SHARED + b"ttR",
    "a meta tensor of such sizes": HUGE + b"0ctorch._utils\n_rebuild_meta_tensor_no_storage\n("
    b"ctorch\nfloat32\n(" + SHARED + b"t(" + SHARED + b"t\x89tR",
    "a repeated number that is conjugated": tensor(
        *REPEATED, kind="ComplexFloatStorage", more=b"}" + CONJ, count=b"K\x02"),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDLESS)
def test_short_files_of_endless_work(case):
    tracemalloc.start()
    try:
        with soon(), pytest.raises(FileFormatError, match=r"^<BytesIO>: "):
            fx.load(archive_of(b"\x80\x04" + ENDLESS[case] + b".", _0=bytes(16)))
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 80 << 20


def test_bools_that_repeat_are_looked_at_once():
    repeated = tensor(*REPEATED, kind="BoolStorage")
    with soon():
        x = fx.load(archive_of(b"\x80\x02" + repeated + b".", _0=b"\0\1\1\0"))
    assert x.shape == (1 << 40,)
    with soon(), pytest.raises(FileFormatError, match="neither 0 nor 1"):
        fx.load(archive_of(b"\x80\x02" + repeated + b".", _0=b"\2\1\1\0"))
    # windows that overlap, over a storage that other bytes lie in too
    windows = tensor(b"M\x00\x40M\x00\x40\x86", b"K\x01K\x01\x86", kind="BoolStorage",
                     count=b"J\x00\x00\x01\x00")  # fmt: skip
    many = b"](" + windows * 3 + b"e"
    with soon(), pytest.raises(FileFormatError, match="expand"):
        fx.load(archive_of(b"\x80\x02" + many + b".", _0=bytes((1 << 16) - 1) + b"\7"))


def test_many_bools_of_one_storage_are_looked_at_once():
    size = 1 << 20
    one = tensor(b"J" + struct.pack("<i", size) + b"\x85", b"K\x01\x85", kind="BoolStorage",
                 count=b"J" + struct.pack("<i", size))  # fmt: skip
    with soon(60):
        assert len(fx.load(archive_of(b"\x80\x02](" + one * 5000 + b"e.", _0=bytes(size)))) == 5000


def test_lists_of_storages_that_are_towers():
    legacy = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {}, 1)]
    data = b"".join(legacy) + b"\x80\x02" + laughs(20) + b"0](h\x14e."
    with soon(), pytest.raises(FileFormatError, match="list of storages"):
        fx.load(io.BytesIO(data))
