"""Extracts the search words of a query: its words without stop words, in seven languages.

If all words of a query are stop words, they are searched. Numbers and short names are kept, because a query may be for
a port or "Go", and BM25 weighs a word by its rarity.

| language | how |
|---|---|
| English, Spanish, Portuguese | stop words, of the one language that has the most of the question's |
| Arabic | stop words, also after "and" and "so", which are written as one with what follows |
| Korean | stop words, and the particles at a word's end |
| Japanese | cut between scripts, and at particles and verb endings |
| Chinese | cut at words of question and grammar; the rest is searched in pairs of characters |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fusion.lib.words import STOP_WORDS, accentless, words_and_pictures

SPANISH = frozenset(
    "a al algo alguien ante antes aquel aquella aun aunque cada como con cual cuales cuando cuanta cuanto cuantos de "
    "del desde donde dos el ella ellas ellos en entonces entre era eran es esa esas ese eso esos esta estaba estaban "
    "estamos estan estar este esto estos estoy fue fueron ha habia habian han hasta hay he hemos la las le les lo los "
    "mas me mi mis mucho muy nada ni nos nosotros nuestra nuestro o otra otro para pero poco por porque pues que quien "
    "quienes se sea ser si sin sobre solo son su sus tambien te tenemos tengo ti tiene tienen todo todos tu tus un una "
    "unas uno unos usted ustedes y ya yo".split()
)
PORTUGUESE = frozenset(
    "a ainda algo alguem ao aos apenas aquela aquele aquilo as ate cada com como da das de dela dele deles depois do "
    "dos e ela elas ele eles em entao entre era eram essa essas esse esses esta estamos estao estar estava este estes "
    "estou eu foi foram ha isso isto ja lhe mais mas me mesmo meu meus minha muito na nada nao nas nem no nos nossa "
    "nosso num numa o onde os ou para pela pelas pelo pelos por porque qual quais quando quanta quanto quantos que "
    "quem se sem sempre ser seu seus so sobre sou sua suas tambem te tem temos tenho ter teu tinha tu tua tudo um uma "
    "umas uns voce voces".split()
)
ARABIC = frozenset(
    accentless(word)
    for word in (
        "ما ماذا متى اين أين كيف لماذا لم لن لا من مَن هل كم أي اي في على عن الى إلى مع بين عند منذ حتى "
        "قد كان كانت كانوا يكون تكون هو هي هم هن نحن انا أنا انت أنت هذا هذه ذلك تلك هؤلاء التي الذي "
        "الذين اللذي ان أن إن او أو ثم بل لكن كل بعض غير بعد قبل أيضا ايضا حول ليس لقد"
    ).split()
)
KOREAN = frozenset(
    "나는 저는 제가 내가 우리 우리는 우리가 너는 당신 그것 이것 저것 그거 이거 그 이 "
    "저 무엇 무엇을 뭐 뭐가 뭘 언제 어디 어디서 어디에 누가 누구 왜 어떻게 어떤 어느 "
    "몇 있다 있는 있어 있나요 있었나요 있습니까 했다 했어 했나요 했지 했습니까 하는 "
    "하기 하다 한 할 해서 인가요 입니까 이다 그리고 그런데 하지만 또는 및 등 수 것 "
    "때 더 좀 잘 대해 대한 대해서".split()
)

_BEFORE_ARABIC = re.compile(r"^[وف](?=\w{3})")
_AFTER_KOREAN = re.compile(
    r"(?<=[가-힣]{2})(?:에서는|에게서|으로는|이라는|에서|에게|한테|까지|부터|으로|처럼|보다|이나|"
    r"마다|조차|하고|이랑|은|는|이|가|을|를|의|에|와|과|로|도|만|랑)$"
)
_HANGUL = re.compile(r"[가-힣]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_JAPANESE_RUN = re.compile(
    r"[\u30a0-\u30ff]+|[\u3400-\u4dbf\u4e00-\u9fff々]+|[\u3040-\u309f]+|[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff々]+"
)
_JAPANESE_GRAMMAR = re.compile(
    "について|によって|ください|でしょう|ありました|ありません|でした|ました|ません|ですか|ますか|という|どうして|"
    "どこ|いつ|なに|だれ|どう|どの|どれ|なぜ|これ|それ|あれ|この|その|あの|です|ます|から|まで|より|"
    "など|だけ|した|して|する|され|いる|いた|ある|あった|"
    "っけ|[のはがをにでとものへやよねか]"
)
_CHINESE_GRAMMAR = re.compile(
    "为什么|為什麼|什么时候|什麼時候|怎么样|怎麼樣|什么|什麼|怎么|怎麼|在?哪里|在?哪裡|在?哪儿|哪个|哪個|哪些|多少|是不是|有没有|有沒有|"
    "我们|我們|你们|你們|他们|他們|她们|她們|它们|它們|这个|這個|那个|那個|这些|這些|那些|关于|關於|可以|"
    "[的了吗嗎呢吧啊我你您他她它谁誰是]"
)


def keywords(text: str) -> list[str]:
    """The words of a question that say what it is about, in order; all of its words where none does."""
    words = words_and_pictures(text)
    stop = _stop_words(words)
    japanese = any(_KANA.search(word) for word in words)
    kept = [part for word in words if word not in stop for part in _parts(word, stop, japanese)]
    return kept or words


def _stop_words(words: Sequence[str]) -> frozenset[str]:
    """The stop words for a question: those of one Latin-script language only, and the Korean ones.

    "Son" and "no" mean different things in several languages. It is English, unless another language matches two words
    more, so "Los Angeles" is not taken for Spanish.
    """
    plain = [accentless(word) for word in words]
    english, *others = (sum(word in known for word in plain) for known in (STOP_WORDS, SPANISH, PORTUGUESE))
    best = STOP_WORDS if max(others) < english + 2 else SPANISH if others[0] >= others[1] else PORTUGUESE
    # As written in the query: with their accents.
    return frozenset(word for word, bare in zip(words, plain, strict=True) if bare in best) | KOREAN


def _parts(word: str, stop: frozenset[str], japanese: bool) -> Iterator[str]:
    if word.isascii():
        yield word
    elif _HANGUL.search(word):
        bare = _AFTER_KOREAN.sub("", word)
        if bare not in stop:
            yield bare
    elif japanese:
        for run in _JAPANESE_RUN.findall(word):
            yield from _without(_JAPANESE_GRAMMAR, run) if "\u3040" <= run[0] <= "\u309f" else (run,)
    elif _HAN.search(word):
        yield from (part for part in _CHINESE_GRAMMAR.split(word) if part)
    elif "\u0600" <= word[0] <= "\u06ff":
        bare = accentless(word)
        if bare not in ARABIC and _BEFORE_ARABIC.sub("", bare) not in ARABIC:
            yield word
    else:
        yield word


def _without(grammar: re.Pattern[str], run: str) -> Iterator[str]:
    """The rest of a run; a single sign of a syllabary is left out."""
    yield from (part for part in grammar.split(run) if len(part) > 1)
