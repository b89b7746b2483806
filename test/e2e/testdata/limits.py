"""Tests with limits on memory, for the plugin of pytest: some hold them, some don't."""
import numpy
import pytest

kept, filled = [], []


@pytest.mark.limit_peak("2 MiB")
def test_peak_over():
    assert len([bytes(1024) for _ in range(10000)]) == 10000


@pytest.mark.limit_peak("64 MiB")
def test_peak_fine():
    assert len([bytes(1024) for _ in range(10000)]) == 10000


@pytest.mark.limit_leak("10 KiB/step", steps=300)
def test_leaks():
    kept.append(numpy.ones(4096))


@pytest.mark.limit_leak("10 KiB/step")
def test_leaks_objects():
    kept.append([object() for _ in range(1000)])


@pytest.mark.limit_leak("10 KiB/step")
def test_sound():
    a = [numpy.ones(4096)]
    a.append(a)     # a cycle is collected


@pytest.mark.limit_leak("10 KiB/step")
def test_cache_fills():
    if len(filled) < 120:
        filled.append(numpy.ones(4096))


@pytest.mark.limit_leak("much")
def test_no_size():
    pass


@pytest.mark.limit_leak("10 KiB", steps=60)
@pytest.mark.parametrize("n", [1, 2])
def test_parameters(n, tmp_path):
    assert tmp_path.exists() and n


def test_plain():
    assert numpy.ones(1 << 22).sum()
