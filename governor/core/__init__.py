"""The pure core: events in, effects out, time as an argument.

It knows what may be lent to whom and in which order.
It must never know what time it is, who is calling, or how an answer travels: no I/O, no clock, no asyncio,
no logging, no gRPC, no YAML (checked by import contracts).
"""
