# SPDX-License-Identifier: MIT
"""The communication hook of DistributedDataParallel."""
