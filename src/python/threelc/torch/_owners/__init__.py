# SPDX-License-Identifier: MIT
"""Owners of parts of a model, which run the optimizer."""
