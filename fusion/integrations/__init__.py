"""The memories for agents of other frameworks: one module for each framework, over the client alone.

    pip install "memory-fusion[langchain]"
    from fusion.integrations.langchain import FusionMiddleware

A module imports its framework, so the rest of memory-fusion imports nothing of this package. `agent_memory` has what
all of them do around a turn of an agent.
"""
