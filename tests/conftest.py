"""Profiles of hypothesis: `ci` draws the same examples every time, `long` many new ones; the option --on."""

import os

import hypothesis
import torch

torch.set_num_threads(1)  # tests run in parallel processes

hypothesis.settings.register_profile(
    "ci", max_examples=20, derandomize=True, deadline=None, database=None, print_blob=True
)
hypothesis.settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser):
    text = "what executes the kernels of tests/kernels: interpreter, or cuda for this machine's card"
    parser.addoption("--on", choices=("interpreter", "cuda"), default="interpreter", help=text)
