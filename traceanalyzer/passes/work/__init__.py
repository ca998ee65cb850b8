"""How much work operators are: floating-point operations and bytes, from the shapes that a trace recorded."""
