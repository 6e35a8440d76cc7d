"""Special functions: ``scipy.special``'s and ``torch.special``'s names.

A derivative that fx does not have (with respect to the order of a Bessel function) is refused when
it is asked for; it is never 0 in silence.
"""

from fx.ops.pointwise.activations import log_softmax, softmax
from fx.ops.pointwise.composed import logit, xlogy
from fx.ops.pointwise.elementwise import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    lgamma,
    log1p,
    round,
    sigmoid,
)  # fmt: skip
from fx.ops.pointwise.torch_names import mvlgamma, sinc
from fx.special.bessel import (
    airy_ai,
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ivp,
    j0,
    j1,
    jn,
    jv,
    jvp,
    k0,
    k0e,
    k1,
    k1e,
    kn,
    kv,
    kvp,
    spherical_j0,
    y0,
    y1,
    yn,
    yv,
    yvp,
)  # fmt: skip
from fx.special.compositions import (
    binom,
    boxcox,
    boxcox1p,
    chdtr,
    chdtrc,
    cosm1,
    exp10,
    factorial,
    huber,
    inv_boxcox,
    inv_boxcox1p,
    kl_div,
    log_expit,
    pdtr,
    pdtrc,
    poch,
    powm1,
    pseudo_huber,
    rel_entr,
    rgamma,
    zetac,
)  # fmt: skip
from fx.special.counting import *
from fx.special.elliptic import *
from fx.special.functions import (
    beta,
    betainc,
    betaln,
    entr,
    erfcinv,
    erfcx,
    exprel,
    gamma,
    gammainc,
    gammaincc,
    gammasgn,
    log_ndtr,
    ndtr,
    ndtri,
    polygamma,
    xlog1py,
    zeta,
)  # fmt: skip
from fx.special.more import *
from fx.special.named import *
from fx.special.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    eval_chebyt,
    eval_chebyu,
    eval_hermite,
    eval_hermitenorm,
    eval_laguerre,
    eval_legendre,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)  # fmt: skip
from fx.special.rows import *
from fx.special.second_kind import *
from fx.special.sums import logsumexp
from fx.special.waves import *

expit, psi, gammaln, multigammaln = sigmoid, digamma, lgamma, mvlgamma
# PyTorch's longer names
bessel_j0, bessel_j1, bessel_y0, bessel_y1 = j0, j1, y0, y1
modified_bessel_i0, modified_bessel_i1, modified_bessel_k0, modified_bessel_k1 = i0, i1, k0, k1
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = k0e, k1e
spherical_bessel_j0 = spherical_j0

__all__ = sorted(
    name for name, value in globals().items() if name[0] != "_" and callable(value)
)  # fmt: skip
