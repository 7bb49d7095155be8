"""All rows in their order: (name, a function that builds it), so that what one holds in memory is gone with it."""

from . import attention, memory, products, short


def table(quick):
    """All of them, or for a smoke run a small one of each kind."""
    for family in [products.f32, products.skinny, short.rows, memory.rows, attention.rows]:
        yield from family(quick)
