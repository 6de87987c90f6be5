"""The HTTP server. A request passes `protocol`, `middleware`, `app`, one module of `routes`, and the gateway."""
