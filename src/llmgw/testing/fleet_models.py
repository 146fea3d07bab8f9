"""Models of several shapes that together hold nine tenths of a fleet of h100x8 nodes: for tests and benchmarks."""

from collections.abc import Iterator
from typing import Any, NamedTuple

H100 = "h100-80gb"


class Shape(NamedTuple):
    """Models of one shape."""

    name: str
    models: int
    replicas: int
    profile: dict[str, Any]


def shapes(nodes: int) -> tuple[Shape, ...]:
    """Give the shapes for so many nodes: two nodes wide, whole nodes, halves, single devices, and no device at all."""
    tenth = max(1, nodes // 10)
    return (
        Shape("wide", tenth, 1, {"nodes": 2, "devices_per_node": 8, "class": H100}),
        Shape("whole", 3 * tenth, 1, {"devices_per_node": 8, "class": H100}),
        Shape("half", tenth, 4, {"devices_per_node": 4, "class": H100}),
        Shape("one", tenth, 16, {"devices_per_node": 1, "class": H100}),
        Shape("cpu", 5, 4, {"cores": 4.0}),
    )


def models(nodes: int, source: str) -> Iterator[dict[str, Any]]:
    """Give the bodies of `POST /api/v1/models`, all for the fake engine."""
    for shape in shapes(nodes):
        for number in range(shape.models):
            yield {
                "name": f"{shape.name}-{number}",
                "source": source,
                "min": shape.replicas,
                "max": shape.replicas,
                "profile": {"engine": "fake", "cores": 1.0, **shape.profile},
            }
