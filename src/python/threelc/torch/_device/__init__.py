# SPDX-License-Identifier: MIT
"""Gradients and answers that stay on a device."""
