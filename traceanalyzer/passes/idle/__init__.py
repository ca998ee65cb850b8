"""Idle time of devices cut into pieces, each with one cause and one stack (docs/reference/causes.md).

`sweep.attributed` goes over the gaps of a device once, in the order of time, and hands out their pieces in chunks: what
it needs at a time does not grow with the trace. What a thread was doing is swept in `threads`; stacks and what they
decide are in `stacks`; samples, profiler overhead, the interpreter lock and threads that wait inside `backward` are
step functions over the time of a thread, in modules of their names.
"""
