"""The routes of the gateway, one module for each group: each checks its request and calls one method of `Gateway`."""

from fusion.doors.http.routes import ask, feedback, memories, operate, tools
from fusion.doors.http.routing import router

__all__ = ["ask", "feedback", "memories", "operate", "router", "tools"]
