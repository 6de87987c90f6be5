"""The inspector: a page in the browser that shows what the memories hold, and why an answer is as it is.

`static` has the page, as the browser gets it; `files` serves it, and `sessions` lets a browser in. The page calls the
routes that every client has.
"""
