"""Philox against its published vectors, and the layout of keys and counters against plain NumPy."""

import numpy as np
import pytest

from fx.backends.cpu.philox import derive, philox4x32, random_bits, split, with_lane

# Random123, tests/kat_vectors, the lines of philox4x32 10: counter, key, block.
KNOWN = [
    "00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd",
    "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1",
]
KEY = np.array([0x12345678, 0x9ABCDEF0, 7, 2**32 - 1, 3, 1], np.uint32)


def reference(counter, key):
    """Philox 4x32-10 of counter (..., 4) and key (..., 2), in uint64 arithmetic."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(counter)[..., i].astype(np.uint64) for i in range(4)]
    k = [np.asarray(key)[..., i].astype(np.uint64) for i in range(2)]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        shift = np.uint64(32)
        c = [(p1 >> shift) ^ c[1] ^ k[0], p1 & low, (p0 >> shift) ^ c[3] ^ k[1], p0 & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(np.broadcast_arrays(*c), axis=-1).astype(np.uint32)


def reference_bits(key, n):
    """The documented layout for one key (6,): n words."""
    state = reference(key[2:], key[:2])
    block = np.arange(-(-n // 4), dtype=np.uint32)
    counter = np.stack(
        [block, 0 * block, np.full_like(block, state[2]), np.full_like(block, state[3])], axis=-1
    )
    return reference(counter, state[:2]).reshape(-1)[:n]


@pytest.mark.parametrize("line", KNOWN)
def test_known_answers(line):
    words = np.array([int(word, 16) for word in line.split()], np.uint32)
    np.testing.assert_array_equal(reference(words[:4], words[4:6]), words[6:])
    np.testing.assert_array_equal(philox4x32(words[:4], words[4:6]), words[6:])


def test_blocks_broadcast():
    rng = np.random.default_rng(0)
    counter = rng.integers(0, 2**32, (5, 1, 4), dtype=np.uint32)
    key = rng.integers(0, 2**32, (3, 2), dtype=np.uint32)
    np.testing.assert_array_equal(philox4x32(counter, key), reference(counter, key))


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 47, 48, 49, 255, 256, 257, 1000])
def test_draws_follow_the_documented_layout(n):
    np.testing.assert_array_equal(random_bits(KEY, shape=(n,)), reference_bits(KEY, n))


def test_a_shorter_draw_is_a_prefix_of_a_longer_one():
    long = random_bits(KEY, shape=(1000,))
    for n in range(0, 1000, 37):
        np.testing.assert_array_equal(random_bits(KEY, shape=(n,)), long[:n])
    np.testing.assert_array_equal(random_bits(KEY, shape=(2, 3, 5)).reshape(-1), long[:30])
    assert random_bits(KEY, shape=()) == long[0]


def test_a_batch_of_keys_equals_the_loop():
    lanes = np.array([[0, 1, 2], [2**32, 2**32 + 1, 2**63]], np.uint64)
    keys = with_lane(KEY, lanes)
    assert keys.shape == (2, 3, 6)
    assert keys[1, 1].tolist() == [*KEY[:4], 1, 1]
    bits = random_bits(keys, shape=(7, 11))
    assert bits.shape == (2, 3, 7, 11)
    for i in np.ndindex(2, 3):
        np.testing.assert_array_equal(bits[i], random_bits(keys[i], shape=(7, 11)))
    np.testing.assert_array_equal(random_bits(KEY, shape=(7, 11), lanes=lanes), bits)
    strided = np.asfortranarray(keys)
    strided.flags.writeable = False
    np.testing.assert_array_equal(random_bits(strided, shape=(7, 11)), bits)


def test_every_word_of_the_key_counts():
    draws = {random_bits(KEY, shape=(4,)).tobytes()}
    for word in range(6):
        for bit in (0, 31):
            key = KEY.copy()
            key[word] ^= np.uint32(1 << bit)
            draws.add(random_bits(key, shape=(4,)).tobytes())
    assert len(draws) == 13


def test_derived_keys_follow_the_documented_layout():
    state = reference(KEY[2:], KEY[:2])
    for data in (0, 1, 2**32 - 1):
        counter = np.array([data, 0x80000000, state[2], state[3]], np.uint32)
        expected = [*reference(counter, state[:2]), 0, 0]
        assert derive(KEY, np.array(data, np.uint32)).tolist() == expected
    keys = derive(with_lane(KEY, np.arange(3))[:, None], np.arange(4))
    assert keys.shape == (3, 4, 6)
    np.testing.assert_array_equal(keys[2, 3], derive(with_lane(KEY, np.array(2)), np.array(3)))


def test_split_derives_and_its_keys_are_distinct():
    keys = split(KEY, 1000)
    assert keys.shape == (1000, 6)
    assert keys.dtype == np.uint32
    np.testing.assert_array_equal(keys[17], derive(KEY, np.array(17)))
    assert len({k.tobytes() for k in keys}) == 1000
    np.testing.assert_array_equal(split(keys[:5], 3)[4], split(keys[4], 3))
    assert split(KEY, 0).shape == (0, 6)


def test_bits_look_uniform_and_uncorrelated():
    bits = random_bits(KEY, shape=(1 << 16,))
    ones = np.unpackbits(bits.view(np.uint8)).reshape(-1, 32).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 0.01
    lanes = random_bits(with_lane(KEY, np.arange(64)), shape=(1024,)) / 2**32
    correlation = np.corrcoef(lanes) - np.eye(64)
    assert np.abs(correlation).max() < 0.15


def test_keys_of_another_form_are_refused():
    for key in (KEY[:4], KEY.astype(np.int64), KEY[0]):
        with pytest.raises(ValueError, match="key must be a uint32 array of shape"):
            random_bits(key, shape=(1,))
    assert random_bits(np.zeros((0, 6), np.uint32), shape=(3,)).shape == (0, 3)
