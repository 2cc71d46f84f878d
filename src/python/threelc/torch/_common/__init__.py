# SPDX-License-Identifier: MIT
"""What all ways to train in PyTorch share."""
