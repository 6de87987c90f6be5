"""What memory-fusion is measured by: recall on public conversations, and what a request costs."""
