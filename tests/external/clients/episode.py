"""What every client does: the discovery sequence of the docs, call for call, told as one line of JSON.

A client module hands in three functions over its open connection and prints what `play` returns.
Nothing is judged here; `cargo xtask interop` does that.
"""

import json

UNKNOWN = "castellan_no_such_tool"


async def play(list_tools, call, fault_of):
    """Runs the sequence.

    list_tools() -> [(name, input schema)]; call(name, arguments) -> {"structured", "text", "is_error"};
    fault_of(exception) -> {"code", "data"} for an error of the protocol, and raises anything else.
    """
    said = {"tools": [{"name": name, "schema": schema} for name, schema in await list_tools()]}
    said["search"] = await call(
        "castellan_search_tools", {"query": "deposit", "domain": "substrate"}
    )
    said["describe"] = await call(
        "castellan_describe_tool", {"name": "castellan_deposit_signal"}
    )
    deposit = {"zone": "grid", "signal": "coordination", "amount": 2.0}
    said["deposit"] = await call("castellan_deposit_signal", deposit)
    said["read"] = await call(
        "castellan_read_signal", {"zone": "grid", "signal": "coordination"}
    )
    said["mistake"] = await call("castellan_deposit_signal", {"zone": "grid"})
    try:
        said["unknown"] = await call("castellan_describe_tool", {"name": UNKNOWN})
    except Exception as error:
        said["unknown"] = fault_of(error)
    return said


def result(structured, content, is_error):
    """A result as `play` wants it."""
    texts = [part.text for part in content if part.type == "text"]
    return {"structured": structured, "text": "\n".join(texts), "is_error": bool(is_error)}


def tell(said, protocol, server):
    """Prints what there is to judge."""
    print(json.dumps({**said, "protocol": protocol, "server": server}))
