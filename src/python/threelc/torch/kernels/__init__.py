# SPDX-License-Identifier: MIT
"""Loops over tensors where they lie, as on a GPU: kernels of Triton, and torch operations where it does not run."""
