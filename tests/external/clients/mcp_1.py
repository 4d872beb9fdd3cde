"""The Python SDK of the first generation: mcp_1.py (URL | PROGRAM ARGUMENT...)."""

import os
import sys

import anyio
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

import episode


def fault_of(error):
    if not isinstance(error, McpError):
        raise error
    return {"code": error.error.code, "data": error.error.data}


def connect(target):
    if target[0].startswith("http"):
        return streamablehttp_client(target[0])
    return stdio_client(
        StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    )


async def main(target):
    async with connect(target) as streams, ClientSession(*streams[:2]) as session:
        hello = await session.initialize()

        async def list_tools():
            listed = await session.list_tools()
            return [(tool.name, tool.inputSchema) for tool in listed.tools]

        async def call(name, arguments):
            answer = await session.call_tool(name, arguments)
            return episode.result(answer.structuredContent, answer.content, answer.isError)

        said = await episode.play(list_tools, call, fault_of)
        episode.tell(said, hello.protocolVersion, hello.serverInfo.name)


anyio.run(main, sys.argv[1:])
