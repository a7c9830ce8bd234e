"""Settings for all tests."""

import os

from hypothesis import settings

# Tests run on all cores: no other processes that compile beside them.
os.environ.setdefault("OUTRULE_COMPILERS", "0")

settings.register_profile(
    "outrule", deadline=None, derandomize=True, print_blob=True, max_examples=50
)
settings.register_profile("long", settings.get_profile("outrule"), max_examples=1000)
settings.load_profile("outrule")
