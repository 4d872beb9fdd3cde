#!/usr/bin/env python3
"""A plugin for `castellan run --mcp`: deposits a signal until it is strong enough to be noticed."""
import json
import sys

ZONE, SIGNAL, ENOUGH = "grid", "coordination", 10.0


def call(tool, **args):
    return {"tool": tool, "args": args}


for line in sys.stdin:
    observation = json.loads(line)["observation"]
    strength = 0.0
    for result in observation["results"]:
        if not result["ok"]:
            sys.exit(f"{result['tool']} failed: {result['error']}")
        if result["tool"] == "castellan_read_signal":
            strength = result["result"]["signals"][0]["strength"]
    answer = {"note": f"{SIGNAL} is at {strength:.1f} of {ENOUGH}", "state": {"strength": strength}}
    if strength >= ENOUGH:
        answer["done"] = True
    else:
        answer["mcp_tools"] = [
            call("castellan_deposit_signal", zone=ZONE, signal=SIGNAL, amount=2.0),
            call("castellan_read_signal", zone=ZONE, signal=SIGNAL),
        ]
    print(json.dumps(answer), flush=True)
