"""NumPy's names for which the standard and PyTorch have none: compositions of fx's functions.

``NAMES`` says where each is defined; ``fx`` loads the module when a name is first asked for. Where
NumPy writes into an argument (``put``, ``fill_diagonal``), these return the changed tensor, as in
JAX. Results take fx's dtypes: integers become the default floating dtype, not float64.
"""

from __future__ import annotations

_HERE = "fx.ops.numpy_names."
_MODULES = {
    "fx.ops.pointwise.complex_numbers": "angle isreal polar view_as_complex view_as_real",
    "fx.ops.pointwise.torch_names": (
        "deg2rad fmax fmin float_power gcd heaviside isneginf isposinf lcm ldexp logaddexp2 "
        "rad2deg sinc"
    ),
    "fx.ops.shapes.assembly": (
        "atleast_1d atleast_2d atleast_3d block_diag column_stack diagflat dsplit dstack fliplr "
        "flipud hsplit unravel_index vander vsplit"
    ),
    "fx.ops.reductions.counting": "bincount",
    _HERE + "pointwise": (
        "around bitwise_count cbrt conjugate degrees divmod fabs float_ frexp interp invert "
        "iscomplex iscomplexobj isrealobj left_shift mod modf piecewise radians right_shift "
        "rint select unwrap"
    ),
    _HERE + "making": (
        "array c_ copy diag_indices diag_indices_from fromfunction geomspace identity index_exp "
        "indices isscalar ix_ mask_indices mgrid ndim ogrid r_ ravel_multi_index s_ shape size "
        "tril_indices tril_indices_from triu_indices triu_indices_from"
    ),
    _HERE + "parts": (
        "append argpartition array_split block choose compress extract flatnonzero lexsort "
        "partition resize rollaxis row_stack sort_complex trim_zeros"
    ),
    _HERE + "statistics": (
        "average convolve corrcoef correlate cov ediff1d gradient percentile ptp trapezoid"
    ),
    _HERE + "histograms": "digitize histogram histogram2d histogram_bin_edges histogramdd",
    _HERE + "sets": "intersect1d setdiff1d setxor1d union1d",
    "fx.linalg.fitting": "polyfit roots",
    _HERE + "polynomials": "poly polyadd polyder polydiv polyint polymul polysub polyval",
    _HERE + "putting": "delete fill_diagonal insert place put put_along_axis",
    _HERE + "applying": "apply_along_axis apply_over_axes vectorize",
    _HERE + "bytes": "frombuffer fromfile fromiter fromstring packbits unpackbits",
    _HERE + "words": (
        "array_equiv array_repr array_str bartlett blackman einsum_path frompyfunc hamming hanning "
        "issubdtype iterable kaiser matvec promote_types savez spacing vecmat"
    ),
    "fx.special": "i0",
    _HERE + "without_nan": (
        "nanargmax nanargmin nancumprod nancumsum nanmax nanmedian nanmin nanpercentile nanprod "
        "nanquantile nanstd nanvar"
    ),
}
NAMES = {name: module for module, names in _MODULES.items() for name in names.split()}
