"""The Python SDK of the second generation: mcp_2.py MODE (URL | PROGRAM ARGUMENT...)."""

import os
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters

import episode


def fault_of(error):
    if not isinstance(error, MCPError):
        raise error
    return {"code": error.error.code, "data": error.error.data}


async def main(mode, target):
    if target[0].startswith("http"):
        server = target[0]
    else:
        server = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    async with Client(server, mode=mode) as client:

        async def list_tools():
            listed = await client.list_tools()
            return [(tool.name, tool.input_schema) for tool in listed.tools]

        async def call(name, arguments):
            answer = await client.call_tool(name, arguments)
            return episode.result(answer.structured_content, answer.content, answer.is_error)

        said = await episode.play(list_tools, call, fault_of)
        info = client.server_info
        episode.tell(said, client.protocol_version, info and info.name)


anyio.run(main, sys.argv[1], sys.argv[2:])
