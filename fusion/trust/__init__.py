"""Decides which homes may be opened. A home is data until its owner allows it.

A home decides which modules are imported, which servers get memories and keys, and which folders are read. So a
``.fusion`` folder that came with a cloned repository is only data: `require` refuses it, and nothing in it is opened,
until `fusion allow` has shown what it would do and the user has agreed. Five kinds of homes are opened without asking:

- the user's own data folder, ``~/.local/share/memory-fusion``;
- ``.fusion`` in the checkout that this code runs from, because anyone who can write there can change the code;
- a home that this gateway creates;
- a home that the user names, with nothing in it but harmless settings (`fusion.trust.reach` says what is harmless);
- a home that was recorded before, and has not changed since.

A settings file outside the home that the user names is trusted without a record, if nobody else can write it. It does
not open a home.

Records are files of the user's state folder (`fusion.store.private_files`), outside every home. A record holds the
identity of the folder and the hash of each file that decides. It does not cover the memories themselves.
"""

from fusion.trust.homes import (
    allow,
    changing,
    checkout_home,
    data_home,
    make_home,
    require,
    rerecord,
    revoke,
    why_refused,
)

__all__ = [
    "allow",
    "changing",
    "checkout_home",
    "data_home",
    "make_home",
    "require",
    "rerecord",
    "revoke",
    "why_refused",
]
