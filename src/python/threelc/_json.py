# SPDX-License-Identifier: MIT
"""JSON that others have sent."""
from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple, Union


def parsed(text: Union[str, bytes]) -> Any:
    """ValueError: it is no JSON, lies too deep, or an object has a name twice, of which one would replace the other."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it lies too deep") from None


def _once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found
