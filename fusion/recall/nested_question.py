"""Says whether a question may need several memories, of which each alone is unlike it.

"When was the institute founded that owned the newspaper?" needs a note on the newspaper and one on the institute, and
the second shares few words with the question. The sign is the question's form: many words with a subject, a relative
clause, or a relation of a relation ("the wife of the director of …").
"""

from __future__ import annotations

import re

from fusion.recall.wants_memory import prompt_words

MANY_TERMS = 7
"""terms with a subject from which a question may need several memories"""
_OPENING_WORDS = 2
"""words in which "which" or "where" asks, and begins no clause"""
_RELATIVE = re.compile(r"\b(?:that|which|who|whom|whose|where|when|dessen|deren|dont|cuy[oa]s?|cui)\b", re.IGNORECASE)
_RELATION = re.compile(r"\bof\b|(?<!what)(?<!who)(?<!when)(?<!where)(?<!how)['’]s\b", re.IGNORECASE)
_ENDS_IN_RELATION = re.compile(r"\b(?:from|in|of|by|at|to|with|for)\W*$", re.IGNORECASE)


def is_nested(question: str) -> bool:
    """Whether the form of a question is that of one that needs several memories."""
    if len(prompt_words(question).subject) >= MANY_TERMS:
        return True
    if _RELATIVE.search(" ".join(question.split()[_OPENING_WORDS:])):
        return True
    relations = len(_RELATION.findall(question)) + bool(_ENDS_IN_RELATION.search(question))
    return relations > 1
