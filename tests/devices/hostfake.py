"""``fake:0`` and ``fake:1``: two devices on the host whose memory NumPy does not reach.

An array refuses to become NumPy's by itself. Copies to and from a device and launches of kernels
are counted.
"""

from collections import Counter

import numpy as np

counts = Counter()


class Memory:
    """What an array of the device holds; only this module looks inside."""

    __slots__ = ("__values",)

    def __init__(self, values):
        self.__values = values

    def read(self):
        return self.__values


class ARRAY:
    """An array of a device: a shape, a dtype, and memory that is not NumPy's."""

    __slots__ = ("dtype", "index", "memory", "ndim", "shape")

    def __init__(self, values, index):
        values = np.asarray(values)
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim
        self.memory, self.index = Memory(values), index

    def _refuse(self, *args, **kwargs):
        raise TypeError("an array of a fake device is none of NumPy's; copy it with to_numpy")

    __array__ = __array_ufunc__ = __array_function__ = _refuse
    __len__ = __iter__ = __getitem__ = __bool__ = __int__ = __float__ = __index__ = _refuse


def device_count():
    return 2


def device_index(array):
    return array.index


def from_numpy(array, index):
    counts["copies in"] += 1
    return ARRAY(array.copy(), index)


def to_numpy(array):
    counts["copies out"] += 1
    return array.memory.read().copy()


def kernel_for(primitive):
    def kernel(*arrays, **params):
        index = arrays[0].index if arrays else int(params["device"].partition(":")[2])
        assert all(a.index == index for a in arrays)
        counts["launches"] += 1
        out = primitive.cpu(*[a.memory.read() for a in arrays], **params)
        return tuple([ARRAY(o, index) for o in out]) if primitive.multiple else ARRAY(out, index)

    return kernel
