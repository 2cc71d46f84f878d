# SPDX-License-Identifier: MIT
"""What is computed where tensors are, as on a GPU: kernels in Triton, and the same as torch operations."""
