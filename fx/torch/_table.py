"""The functions of ``torch`` that are methods of its tensors, as a table of signatures.

A row is PyTorch's signature; the function calls the method of that name on the first argument.
``name(...) = target`` calls ``target`` of ``fx`` instead, with the same arguments in that order.
What stands after ``*`` is passed by name; ``name~`` is accepted and changes nothing.
"""

UNARY = """
abs absolute acos acosh adjoint angle arccos arccosh arcsin arcsinh arctan arctanh argwhere asin
asinh atan atanh bitwise_not ceil conj conj_physical cos cosh deg2rad detach digamma erf
erfc erfinv exp exp2 expm1 fix fliplr flipud floor frac get_device is_complex is_conj
is_floating_point is_neg is_nonzero is_signed isfinite isinf isnan isneginf isposinf isreal lgamma
log log10 log1p log2 logical_not neg negative numel positive rad2deg ravel reciprocal relu
resolve_conj resolve_neg rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square t tan tanh trunc
"""

BINARY = """
arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign eq
floor_divide fmax fmin fmod gcd ge greater greater_equal gt hypot inner kron lcm ldexp
le less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor lt matmul maximum
minimum mul multiply ne nextafter not_equal true_divide xlogy
"""

SIGNATURES = """
clone(input, *, memory_format~=None)
add(input, other, *, alpha=1)
sub(input, other, *, alpha=1)
subtract(input, other, *, alpha=1)
div(input, other, *, rounding_mode=None)
divide(input, other, *, rounding_mode=None)
remainder(input, other)
pow(input, exponent)
float_power(input, exponent)
heaviside(input, values)
lerp(input, end, weight)
addcmul(input, tensor1, tensor2, *, value=1)
addcdiv(input, tensor1, tensor2, *, value=1)
clamp(input, min=None, max=None)
clip(input, min=None, max=None)
clamp_min(input, min)
clamp_max(input, max)
logit(input, eps=None)
hardshrink(input, lambd=0.5)
nan_to_num(input, nan=0.0, posinf=None, neginf=None)
round(input, *, decimals=0)
isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)
allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)
equal(input, other)
dist(input, other, p=2)

sum(input, dim=None, keepdim=False, *, dtype=None)
mean(input, dim=None, keepdim=False, *, dtype=None)
prod(input, dim=None, keepdim=False, *, dtype=None)
var(input, dim=None, unbiased=None, keepdim=False, *, correction=None)
std(input, dim=None, unbiased=None, keepdim=False, *, correction=None)
max(input, dim=None, keepdim=False, *, other=None)
min(input, dim=None, keepdim=False, *, other=None)
amax(input, dim=None, keepdim=False)
amin(input, dim=None, keepdim=False)
aminmax(input, *, dim=None, keepdim=False)
argmax(input, dim=None, keepdim=False)
argmin(input, dim=None, keepdim=False)
all(input, dim=None, keepdim=False)
any(input, dim=None, keepdim=False)
median(input, dim=None, keepdim=False)
nanmedian(input, dim=None, keepdim=False)
mode(input, dim=-1, keepdim=False)
kthvalue(input, k, dim=-1, keepdim=False)
logsumexp(input, dim, keepdim=False)
norm(input, p='fro', dim=None, keepdim=False, dtype=None)
count_nonzero(input, dim=None)
quantile(input, q, dim=None, keepdim=False, *, interpolation='linear')
nanquantile(input, q, dim=None, keepdim=False, *, interpolation='linear')
cov(input, *, correction=1, fweights=None, aweights=None)
corrcoef(input)
bincount(input, weights=None, minlength=0)
histc(input, bins=100, min=0, max=0)
histogram(input, bins, *, range=None, weight=None, density=False)

cumsum(input, dim, *, dtype=None)
cumprod(input, dim, *, dtype=None)
cummax(input, dim)
cummin(input, dim)
logcumsumexp(input, dim)
diff(input, n=1, dim=-1, prepend=None, append=None)
softmax(input, dim, dtype=None)
log_softmax(input, dim, dtype=None)

sort(input, dim=-1, descending=False, stable=False)
argsort(input, dim=-1, descending=False, stable=False)
msort(input)
topk(input, k, dim=-1, largest=True, sorted=True)
unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None)
unique_consecutive(input, return_inverse=False, return_counts=False, dim=None)
nonzero(input, *, as_tuple=False)

reshape(input, shape)
flatten(input, start_dim=0, end_dim=-1)
unflatten(input, dim, sizes)
squeeze(input, dim=None)
unsqueeze(input, dim)
transpose(input, dim0, dim1)
swapaxes(input, axis0, axis1)
swapdims(input, dim0, dim1)
permute(input, dims)
movedim(input, source, destination)
moveaxis(input, source, destination)
broadcast_to(input, size)
tile(input, dims)
flip(input, dims)
roll(input, shifts, dims=None)
rot90(input, k=1, dims=(0, 1))
repeat_interleave(input, repeats, dim=None)
split(tensor, split_size_or_sections, dim=0)
split_with_sizes(input, split_sizes, dim=0)
chunk(input, chunks, dim=0)
tensor_split(input, indices_or_sections, dim=0)
hsplit(input, indices_or_sections)
vsplit(input, indices_or_sections)
dsplit(input, indices_or_sections)
unbind(input, dim=0)
narrow(input, dim, start, length)
select(input, dim, index)
unsafe_split(tensor, split_size_or_sections, dim=0) = Tensor.split
unsafe_split_with_sizes(input, split_sizes, dim=0) = Tensor.split_with_sizes
unsafe_chunk(input, chunks, dim=0) = Tensor.chunk
unfold_copy(input, dimension, size, step) = Tensor.unfold

take(input, index)
take_along_dim(input, indices, dim=None)
gather(input, dim, index, *, sparse_grad~=False)
index_select(input, dim, index)
index_add(input, dim, index, source, *, alpha=1)
index_copy(input, dim, index, source)
index_fill(input, dim, index, value)
index_put(input, indices, values, accumulate=False)
masked_fill(input, mask, value)
masked_select(input, mask)
masked_scatter(input, mask, source)
scatter(input, dim, index, src=None, *, value=None, reduce=None)
scatter_add(input, dim, index, src)
scatter_reduce(input, dim, index, src, reduce, *, include_self=True)
select_scatter(input, src, dim, index)
slice_scatter(input, src, dim=0, start=None, end=None, step=1)
diagonal_scatter(input, src, offset=0, dim1=0, dim2=1)
renorm(input, p, dim, maxnorm)
put(input, index, source, accumulate=False)
as_strided(input, size, stride, storage_offset=None)
index_reduce(input, dim, index, source, reduce, *, include_self=True)
mvlgamma(input, p)

diag(input, diagonal=0)
diagonal(input, offset=0, dim1=0, dim2=1)
diag_embed(input, offset=0, dim1=-2, dim2=-1)
diagflat(input, offset=0)
tril(input, diagonal=0)
triu(input, diagonal=0)
trace(input)

dot(input, tensor)
vdot(input, other)
mm(input, mat2)
bmm(input, mat2)
mv(input, vec)
outer(input, vec2)
ger(input, vec2)
cross(input, other, dim=-1)
addmm(input, mat1, mat2, *, beta=1, alpha=1)
addmv(input, mat, vec, *, beta=1, alpha=1)
addr(input, vec1, vec2, *, beta=1, alpha=1)
addbmm(input, batch1, batch2, *, beta=1, alpha=1)
baddbmm(input, batch1, batch2, *, beta=1, alpha=1)
matrix_power(input, n)

cholesky(input, upper=False)
cholesky_inverse(L, upper=False)
cholesky_solve(B, L, upper=False)
triangular_solve(b, A, upper=True, transpose=False, unitriangular=False)
lu_solve(b, LU_data, LU_pivots)
inverse(input)
det(input)
logdet(input)
slogdet(input)

cat(tensors, dim=0) = concat
concat(tensors, dim=0) = concat
concatenate(tensors, dim=0) = concat
stack(tensors, dim=0) = stack
hstack(tensors) = hstack
vstack(tensors) = vstack
row_stack(tensors) = vstack
cdist(x1, x2, p=2.0, compute_mode~=None) = cdist
bucketize(input, boundaries, *, out_int32=False, right=False) = bucketize
real(input) = real
imag(input) = imag
isin(elements, test_elements, *, assume_unique~=False, invert=False) = isin
bernoulli(input, p=None, *, generator=None) = bernoulli
multinomial(input, num_samples, replacement=False, *, generator=None) = multinomial
poisson(input, generator=None) = poisson
"""

OF_NN = """
adaptive_avg_pool1d alpha_dropout avg_pool1d bilinear celu celu_ channel_shuffle conv1d conv2d
conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity dropout
feature_alpha_dropout group_norm max_pool1d max_pool1d_with_indices max_pool2d max_pool3d
native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu rms_norm rrelu
rrelu_ selu selu_ threshold threshold_
"""
