"""Tools and routes of other systems over the fused memory."""
