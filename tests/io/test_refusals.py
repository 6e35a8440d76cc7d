"""Hostile and damaged files: what they ask for is refused by name, and costs nothing."""

import argparse
import io
import os
import pickle
import struct
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest

import fx
from fx.errors import FileFormatError
from fx.io.archive import ArchiveReader, ArchiveWriter
from fx.io.inspection import check_size


def archive_of(pickled, **records):
    """A file in the zip format with this pickle."""
    file = io.BytesIO()
    writer = ArchiveWriter(file, "archive/")
    writer.add("data.pkl", pickled)
    for name, data in records.items():
        writer.add(f"data/{name.strip('_')}", data)
    writer.close()
    return file


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def storage(key="0", kind="torch FloatStorage", count=b"K\x04"):
    return (b"(" + text("storage") + b"c" + kind.replace(" ", "\n").encode() + b"\n" + text(key)
            + text("cpu") + count + b"tQ")  # fmt: skip


def tensor(offset=b"K\x00", size=b"K\x04\x85", stride=b"K\x01\x85", flags=b"\x89", **of):
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage(**of) + offset + size
            + stride + flags + b"}tR.")  # fmt: skip


class Runs:
    """What a hostile pickle does."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


CALLS = {
    "os.system": Runs(os.system, "touch /tmp/never"),
    "builtins.eval": Runs(eval, "1 + 1"),
    "builtins.exec": Runs(exec, "x = 1"),
    "builtins.getattr": Runs(getattr, "x", "upper"),
    "io.open": Runs(open, "/tmp/never", "w"),
    "builtins.__import__": Runs(__import__, "os"),
    "numpy.load": Runs(np.load, "x.npy"),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", CALLS)
def test_functions_are_refused_by_name(name, protocol):
    file = archive_of(pickle.dumps({"x": CALLS[name]}, protocol))
    shown = name.replace("os.", "posix.") if name.startswith("os.") else name
    with pytest.raises(FileFormatError, match=rf"asks for {shown}, .*weights_only=False"):
        fx.load(file)
    assert not os.path.exists("/tmp/never")


def test_classes_are_refused_by_name_and_can_be_allowed():
    file = io.BytesIO()
    fx.save({"args": argparse.Namespace(lr=0.5, x=fx.ones(2))}, file)
    with pytest.raises(FileFormatError, match=r"argparse\.Namespace.*add_safe_globals"):
        fx.load(file)
    with fx.io.safe_globals([argparse.Namespace]):
        assert fx.load(file)["args"].lr == 0.5
        assert fx.io.get_safe_globals() == [argparse.Namespace]
    assert fx.io.get_safe_globals() == []
    assert fx.load(file, weights_only=False)["args"].x.tolist() == [1, 1]


def test_a_trusted_name_does_not_allow_others():
    file = archive_of(pickle.dumps([argparse.Namespace(), CALLS["os.system"]], 2))
    allowed = fx.io.safe_globals([(argparse.Namespace, "argparse.Namespace")])
    with allowed, pytest.raises(FileFormatError, match=r"posix\.system"):
        fx.load(file)
    with pytest.raises(TypeError, match="full name"):
        fx.io.add_safe_globals([(1, 2, 3)])


PICKLES = {
    "a text longer than the file": b"\x80\x02X\xff\xff\xff\x7fab.",
    "a text of 2 ** 63 bytes": b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f.",
    "bytes longer than the file": b"\x80\x03B\xff\xff\xff\xffab.",
    "an integer of a negative length": b"\x80\x02\x8b\xff\xff\xff\xff.",
    "a memo that is not there": b"\x80\x02h\x05.",
    "a long memo that is not there": b"\x80\x02j\xff\xff\xff\xff.",
    "a persistent id that is none": b"\x80\x02K\x01Q.",
    "an empty stack": b"\x80\x02.",
    "an empty stack for a tuple": b"\x80\x02\x87.",
    "no mark": b"\x80\x02K\x01t.",
    "no end": b"\x80\x02]",
    "nothing": b"",
    "a protocol to come": b"\x80\x09].",
    "protocol 0": b"I01\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "an out-of-band buffer": b"\x80\x05\x97.",
    "an old-style class": b"\x80\x02(ios\nsystem\n.",
    "a text persistent id": b"\x80\x02Px\n.",
    "items for a list": b"\x80\x02]K\x01K\x02s.",
    "append to a dict": b"\x80\x02}K\x01a.",
    "members for a list": b"\x80\x04](K\x01\x90.",
    "a call of a list": b"\x80\x02])R.",
    "a call with a list": b"\x80\x02ccollections\nOrderedDict\n]R.",
    "attributes for a list": b"\x80\x02]}b.",
    "attributes for a dict": b"\x80\x02}}b.",
    "attributes with numbers as names": b"\x80\x02ccollections\nOrderedDict\n)R}K\x01K\x02sb.",
    "a key that cannot be one": b"\x80\x02}]K\x01s.",
    "text that is none": b"\x80\x02X\x02\x00\x00\x00\xff\xfe.",
    "a name without end": b"\x80\x02cos" + b"x" * 2000,
    "a name of numbers": b"\x80\x04K\x01K\x02\x93.",
    "a method of a class": b"\x80\x04\x8c\x0bcollections\x8c\x15OrderedDict.fromkeys\x93.",
    "a new list": b"\x80\x02cbuiltins\nlist\n)\x81.",
    "a call of list": b"\x80\x02cbuiltins\nlist\n)R.",
    "another encoding": b"\x80\x02c_codecs\nencode\n" + text("a") + text("hex") + b"\x86R.",
    "a set of lists": b"\x80\x02c__builtin__\nset\n]]a\x85R.",
    "a NumPy array of objects": b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8\x89\x88\x87R.",
    "a NumPy array of fields": b"\x80\x02cnumpy\ndtype\nX\x05\x00\x00\x00f4,i4\x89\x88\x87R.",
    "a Parameter of a number": b"\x80\x02ctorch._utils\n_rebuild_parameter\nK\x01\x88N\x87R.",
    "no dtype": b"\x80\x02ctorch._utils\n_rebuild_meta_tensor_no_storage\n(K\x01))\x89tR.",
}  # fmt: skip


@pytest.mark.parametrize("case", PICKLES)
def test_damaged_pickles(case):
    with pytest.raises(FileFormatError, match=r"^<BytesIO>: "):
        fx.load(archive_of(PICKLES[case]))


TENSORS = {
    "the whole": dict(),
    "an offset beyond": dict(offset=b"K\x01"),
    "a negative offset": dict(offset=b"J\xff\xff\xff\xff"),
    "an offset that is a bool": dict(offset=b"\x88"),
    "a size beyond": dict(size=b"K\x05\x85"),
    "a huge size": dict(size=b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85"),
    "a size of 2 ** 200": dict(size=b"\x8a\x1a" + b"\xff" * 25 + b"\x01\x85"),
    "a negative size": dict(size=b"J\xff\xff\xff\xff\x85"),
    "a stride beyond": dict(stride=b"K\x02\x85"),
    "a huge stride": dict(stride=b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85"),
    "a negative stride": dict(stride=b"J\xff\xff\xff\xff\x85"),
    "a huge expansion": dict(size=b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85", stride=b"K\x00\x85"),
    "too few strides": dict(stride=b")"),
    "a size that is a number": dict(size=b"K\x04"),
    "sizes that are no integers": dict(size=b"G" + b"\x00" * 8 + b"\x85"),
    "65 axes": dict(size=b"(" + b"K\x01" * 65 + b"t", stride=b"(" + b"K\x01" * 65 + b"t"),
    "another size of the storage": dict(count=b"K\x05"),
    "a huge storage": dict(count=b"\x8a\x08" + b"\xff" * 7 + b"\x7f"),
    "a negative storage": dict(count=b"J\xff\xff\xff\xff"),
    "a storage of no size": dict(count=b"N"),
    "a storage that is not there": dict(key="1"),
    "a path": dict(key="../version"),
    "a storage type that is none": dict(kind="torch FooStorage"),
    "a quantised storage": dict(kind="torch QInt8Storage"),
    "a storage of another type": dict(kind="torch DoubleStorage"),
    "a storage type that is a class": dict(kind="torch Tensor"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors_that_do_not_fit(case):
    file = archive_of(tensor(**TENSORS[case]), _0=np.arange(4.0, dtype="f4").tobytes())
    if case == "the whole":
        assert fx.load(file).tolist() == [0, 1, 2, 3]
        return
    with pytest.raises(FileFormatError, match=r"^<BytesIO>: "):
        fx.load(file)


def test_the_oldest_way_to_write_a_tensor():
    pickled = b"\x80\x02ctorch._utils\n_rebuild_tensor\n(" + storage()
    pickled += b"K\x02K\x02\x85K\x01\x85tR."
    file = archive_of(pickled, _0=np.arange(4.0, dtype="f4").tobytes())
    assert fx.load(file).tolist() == [2, 3]


def test_expanded_tensors_stay_small():
    size = b"(" + b"J\x00\x00\x10\x00" * 2 + b"t"
    file = archive_of(tensor(size=size, stride=b"K\x00K\x00\x86"), _0=bytes(16))
    assert fx.load(file).shape == (1 << 20, 1 << 20)


def test_bool_tensors_hold_bools():
    kind = "torch BoolStorage"
    assert fx.load(archive_of(tensor(kind=kind), _0=b"\0\1\1\0")).tolist() == [0, 1, 1, 0]
    with pytest.raises(FileFormatError, match="neither 0 nor 1"):
        fx.load(archive_of(tensor(kind=kind), _0=b"\0\1\2\0"))


# bombs ------------------------------------------------------------------------------------------


def nested(depth):
    return b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b"."


def nested_tuples(depth):
    return b"\x80\x02)" + b"\x85" * depth + b"."


def laughs(depth):
    body = b"]q\x00"
    for i in range(depth):
        body += b"0](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1])
    return b"\x80\x02" + body + b"."


def key_of_keys(depth):
    body = b")q\x00"
    for i in range(depth):
        body += b"0h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1])
    return b"\x80\x02" + body + b"}h" + bytes([depth]) + b"K\x01s."


BOMBS = {
    "deep lists": (nested(100_000), "deep"),
    "deep tuples": (nested_tuples(100_000), "deep"),
    "lists of lists of one list": (laughs(60), "millions"),
    "a key whose hash takes for ever": (key_of_keys(60), "key of more than"),
    "a list in itself": (b"\x80\x02]q\x00h\x00a.", "holds itself"),
    "keys of one hash": (
        b"\x80\x02}(" + b"".join(
            b"\x8a\x0a" + (i * ((1 << 61) - 1)).to_bytes(10, "little") + b"N"
            for i in range(1 << 10, 1 << 11)
        ) + b"u.", "64 bits"),
}  # fmt: skip


@pytest.mark.parametrize("case", BOMBS)
def test_bombs_of_containers(case):
    pickled, message = BOMBS[case]
    with pytest.raises(FileFormatError, match=message):
        fx.load(archive_of(pickled))


def test_sharing_and_depth_that_programs_use_are_no_bombs():
    row = list(range(100))
    value = [row] * 10_000
    for _ in range(400):
        value = [value]
    check_size(value, 100_000)


def test_huge_memo_numbers_take_no_room():
    tracemalloc.start()
    assert fx.load(archive_of(b"\x80\x02K\x07r\xff\xff\xff\xff.")) == 7
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_compressed_bombs():
    count = 512 << 20
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", tensor(count=b"J" + struct.pack("<i", count // 4)))
        with archive.open("archive/data/0", "w") as record:
            chunk = bytes(1 << 20)
            for _ in range(64):
                record.write(chunk)
    small = out.getvalue()
    # the record says that it has 512 MB, and is 64 KB long
    size = struct.pack("<I", 64 << 20)
    large = small.replace(size, struct.pack("<I", count))
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="expand"):
        fx.load(io.BytesIO(large))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


def test_records_that_share_bytes():
    file = archive_of(b"\x80\x02N.", _0=bytes(1000), _1=bytes(1000))
    data = bytearray(file.getvalue())
    first, second = [m for m in range(len(data)) if data[m : m + 4] == b"PK\1\2"][1:3]
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    with pytest.raises(FileFormatError, match="beyond the place"):
        fx.load(io.BytesIO(bytes(data)))


def test_damage_in_the_values_is_found():
    file = io.BytesIO()
    fx.save({"x": fx.arange(1000.0)}, file)
    data = bytearray(file.getvalue())
    data[data.index(np.float32(500).tobytes())] ^= 1
    with pytest.raises(FileFormatError, match=r"'archive/data/0'.*CRC-32"):
        fx.load(io.BytesIO(bytes(data)))


def test_archives_without_checksums_are_read():
    file = io.BytesIO()
    fx.save({"x": fx.arange(1000.0)}, file)
    archive, out = ArchiveReader(file, "x"), io.BytesIO()
    writer = ArchiveWriter(out)
    for name in archive.entries:
        writer.add(name, archive.read(name), crc=0)
    writer.close()
    assert fx.load(out)["x"].shape == (1000,)
    assert zlib.crc32(b"") == 0


# other files ------------------------------------------------------------------------------------

NO_FILES = {
    "nothing": (b"", "empty"),
    "text": (b"hello", "begins with b'hello'"),
    "a tar file": (b"\0" * 257 + b"ustar\0" + b"\0" * 500, "tar format"),
    "another pickle": (pickle.dumps({"a": 1}, 2), "begins with another pickle"),
    "a cut zip": (archive_of(b"\x80\x02N.").getvalue()[:-10], "zip directory"),
    "an empty zip": (b"PK\5\6" + bytes(18), "without one data.pkl"),
}


@pytest.mark.parametrize("case", NO_FILES)
def test_other_files(case):
    data, message = NO_FILES[case]
    with pytest.raises(FileFormatError, match=message):
        fx.load(io.BytesIO(data))


@pytest.mark.parametrize("named", ["data.pkl", "data/0", "version"])
def test_two_records_of_one_name(named):
    """Which of the two is meant, readers differ in."""
    made = io.BytesIO()
    fx.save({"w": fx.ones(3)}, made)
    file = io.BytesIO()
    with zipfile.ZipFile(made) as source, zipfile.ZipFile(file, "w") as archive:
        names = source.namelist()
        for name in [*names, next(n for n in names if n.endswith(f"/{named}"))]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                archive.writestr(name, source.read(name))
    with pytest.raises(FileFormatError, match="two records of the zip archive have one name"):
        fx.load(file)


def test_torchscript_archives():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("data.pkl", "constants.pkl", "code/__torch__.py"):
            archive.writestr(f"model/{name}", b"\x80\x02N.")
    with pytest.raises(FileFormatError, match=r"TorchScript.*state_dict"):
        fx.load(file)


@pytest.mark.parametrize("f", [3, None, object()])
def test_what_is_no_file(f):
    with pytest.raises(AttributeError, match="path or a file-like object"):
        fx.load(f)
    with pytest.raises(AttributeError, match="path or a file-like object"):
        fx.save({}, f)


def test_files_that_cannot_be_sought():
    class Pipe(io.RawIOBase):
        def read(self, n=-1):
            return b""

    with pytest.raises(AttributeError, match=r"io\.BytesIO"):
        fx.load(Pipe())


def test_pickle_module_is_refused():
    with pytest.raises(ValueError, match="pickle_module"):
        fx.load(io.BytesIO(), pickle_module=pickle)


def test_saving_inside_jit_is_refused():
    @fx.jit
    def f(x):
        fx.save(x, io.BytesIO())
        return x

    with pytest.raises(fx.errors.StagingError, match="outside"):
        f(fx.ones(2))


def test_saving_inside_grad_is_refused():
    def f(x):
        fx.save(x, io.BytesIO())
        return x.sum()

    with pytest.raises(TypeError, match="only while its transform runs"):
        fx.grad(f)(fx.ones(2))
