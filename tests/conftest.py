"""Settings for all tests."""

from hypothesis import settings

settings.register_profile(
    "outrule", deadline=None, derandomize=True, print_blob=True, max_examples=50
)
settings.register_profile("long", settings.get_profile("outrule"), max_examples=1000)
settings.load_profile("outrule")
