"""Small data sets for the tests of the benchmarks."""

from __future__ import annotations

KITCHEN = {
    "sample_id": "kitchen",
    "conversation": {
        "speaker_a": "Ida",
        "speaker_b": "Per",
        "session_10_date_time": "9:05 am on 2 March, 2024",
        "session_10": [{"speaker": "Per", "dia_id": "D10:1", "text": "The oven is repaired."}],
        "session_2_date_time": "12:30 pm on 14 January, 2024",
        "session_2": [
            {"speaker": "Ida", "dia_id": "D2:1", "text": "The oven broke on Sunday.", "blip_caption": "a dark oven"},
            {"speaker": "Per", "dia_id": "D2:2", "text": "Then we eat salad <for a week> & bread."},
        ],
    },
    "qa": [
        {"question": "What broke?", "answer": "the oven", "evidence": ["D2:01"], "category": 4},
        {"question": "Is the oven repaired, and what was eaten?", "evidence": ["D:10:1; D2:2"], "category": 1},
        {"question": "What did the cat eat?", "evidence": ["D2:2"], "category": 5},
        {"question": "When?", "answer": "", "evidence": ["D", "D9:9"], "category": 2},
    ],
}

OVEN = {"idx": 0, "title": "Oven", "paragraph_text": "The oven was built in Oslo.", "is_supporting": True}

OSLO = {"idx": 1, "title": "Oslo", "paragraph_text": "Oslo lies on a fjord.", "is_supporting": True}

SALAD = {"idx": 2, "title": "Salad", "paragraph_text": "Salad is eaten cold.", "is_supporting": False}

HOPS = [
    {"id": "2hop__1_2", "question": "On what does the oven's city lie?", "paragraphs": [OVEN, OSLO, SALAD]},
    {
        "id": "2hop__3_4",
        "question": "Where was the oven built?",
        "paragraphs": [OVEN, {**OSLO, "is_supporting": False}],
    },
]
