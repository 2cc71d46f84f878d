# SPDX-License-Identifier: MIT
"""The version of the package, equal to that of the library it was made with."""
__version__ = "0.5.1"
