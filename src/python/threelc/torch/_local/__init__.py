# SPDX-License-Identifier: MIT
"""Local steps: the fragments of a model, and their exchanges."""
