"""How much memory there is: the limit of the shell counts as well."""

import os
import subprocess
import sys

import pytest

from outrule import memory

CHILD = """
import mmap, resource
from outrule.memory import address_limit, free_memory, is_exhausted
print(address_limit(), is_exhausted())
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
free = free_memory()
print(address_limit() == 2 << 30, is_exhausted(), (1 << 30) < free < (2 << 30))
mmap.mmap(-1, 1800 << 20).close()
print(is_exhausted(), free_memory() > (1 << 30))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux says it")  # noqa: PTH110
def test_the_limit_of_the_shell_counts():
    surroundings = {k: v for k, v in os.environ.items() if k != memory.LIMIT}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=surroundings, check=True
    )
    assert done.stdout.splitlines() == ["None False", "True False True", "True True"]


def test_systems_that_do_not_say_have_no_limit(monkeypatch):
    monkeypatch.setattr(memory, "resource", None)
    assert memory.address_limit() is None
    assert not memory.is_exhausted()
