"""Communication between ranks: what was communicated, on whose clock, who waited for whom, and who was late.

`operations` loads what every rank recorded, `matching` finds the operations that are one collective, `clocks` puts the
ranks on one clock, `waits` splits each operation into waiting and transfer, `lateness` says whom the others wait for.
"""
