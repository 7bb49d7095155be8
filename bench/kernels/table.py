"""All rows in their order: (name, a function that builds it), so that what one holds in memory is gone with it."""

from . import attention, busy, compiling, memory, models, primitives, products, shapes, short

FAMILIES = [products.f32, products.skinny, short.rows, memory.rows, attention.rows, models.rows, primitives.rows,
            shapes.rows, compiling.rows, busy.rows]


def table(quick):
    """All of them, or for a smoke run a small one of each kind."""
    for family in FAMILIES:
        yield from family(quick)
