"""The common schema: tables, columns, units and kinds, declared once; and what readers write to."""
