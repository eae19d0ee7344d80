"""What users' questions are about: how they begin, and what is asked about a text.

Behind the bare start of a user's turn a model writes what users write most, and hardly ever the long turns around a
document. So a part of the questions is led. Some begin with a few given words, from which the target goes on; some ask
a given thing about texts, which the target writes as well: behind a few words of a report, without a chat template,
it writes what it was first trained on. Which kind a question is depends on its seed alone.

The words are written for this project, in English; none comes from a data set.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from random import Random

from outrider.api import FinishReason

BARE, BEGUN, ABOUT_ONE = 0.25, 0.45, 0.18  # parts of all questions; the others are about several texts
TEXT_TOKENS = (60, 220)  # that a text has at most, by chance
TEXT_TEMPERATURE, TEXT_TOP_P = 0.8, 0.95
LEAST_TEXT = 200  # characters of a text that is worth a question
MOST_TEXTS = 3
ASKING = 0.7  # of the questions about several texts end in one that the target goes on with

STARTS = (
    *("Write a short story about", "Write a poem about", "Write an email to", "Write a blog post about", "Write a"),
    *("Write a news article about", "Write a detailed report on", "Describe", "Imagine you are", "Pretend to be"),
    *("You are a", "Compose", "Draft a", "Explain", "Explain to a child", "Explain the difference between", "Compare"),
    *("What are the advantages of", "What is the difference between", "How can I", "How do you", "How does", "Why do"),
    *("Why is", "What are some", "What should I", "Give me", "List", "Suggest", "Help me", "Can you", "Could you"),
    *("Tell me about", "Discuss", "Analyze", "Is it true that", "Should I", "What would happen if", "Plan a"),
    *("Who was", "Who wrote", "Who is the", "Who won the", "Who played", "When did", "When was the", "When is"),
    *("Where is", "Where was", "Where did", "What is the name of", "What is the capital of", "What is the"),
    *(
        "What was the",
        "What does",
        "Which country",
        "Which",
        "In what year",
        "How many",
        "How much",
        "How long",
        "How old",
    ),
    *("who sang", "when does", "what is", "where do", "how many", "who is", "what type of", "name the"),
    *("Write a Python function that", "Write a Python program to", "Write a function in JavaScript", "Implement"),
    *("Write a SQL query", "Write an HTML page", "Fix the bug in this code:\n", "What does this code do?\n"),
    *("Solve the equation", "Calculate", "Find the value of", "What is the area of", "What is the probability"),
    *("A store sells", "A farmer has", "A train travels", "A baker makes", "A school has", "A company", "There are"),
    *("Maria has", "John buys", "Sam and Lucy", "Every day, Emma", "Anna earns", "Ben reads", "A box contains"),
    *("If a car", "If three", "Mr. Lee", "A recipe needs", "In a class of", "The price of a", "Half of the"),
    *("Translate into English:", "Translate from German into English:", "Translate into French:", "How do you say"),
    *("Write a letter in German about", "Write two sentences in German about", "Write in Spanish about"),
    *("Rewrite this sentence:", "Correct the grammar:", "Rephrase:", "Make this text more formal:", "Edit:"),
    *("Extract the names from:", "Classify the sentiment of", "Identify", "Sort", "Convert", "Complete the sentence:"),
)

# About one text.
FORMS = (
    "Summarize: {0}",
    "Summarize the following text.\n\n{0}",
    "Please write a short summary of this article:\n\n{0}",
    "{0}\n\nSummarize the text above in three sentences.",
    "What are the main points of this text?\n\n{0}",
    "TL;DR:\n{0}",
    "Give this text a title and a one-paragraph summary:\n{0}",
    "Rewrite this text in simpler words:\n\n{0}",
    "Correct the spelling and grammar of this text:\n\n{0}",
    "Make this text shorter:\n\n{0}",
    "Make this more formal:\n\n{0}",
    "Turn this into a list of bullet points:\n\n{0}",
    "Continue this text:\n\n{0}",
    "Extract all names, places and numbers from this text:\n\n{0}",
    "Translate this text into English:\n\n{0}",
    "Translate into French: {0}",
    "Translate the following text into German:\n{0}",
    "Write three questions about this text and answer them:\n\n{0}",
    "Here is a text:\n\n{0}\n\nWhat is the author's opinion, and do you agree?",
)

# About several texts; behind one that ends openly the target goes on.
ASKED = (
    "Answer the question with the help of these passages.\n\n{0}\n\nQuestion:",
    "{0}\n\nUsing the information above, answer this question:",
    "Context:\n{0}\n\nQuestion:",
    "Read the documents and answer.\n\n{0}\n\nWho",
    "{0}\n\nWhat",
)
COMPARED = (
    "Summarize these texts in one paragraph:\n\n{0}",
    "What do these texts have in common?\n\n{0}",
    "{0}\n\nWhich of these texts is the most interesting, and why?",
)
NUMBERINGS = ("[{0}] {1}", "Passage {0}: {1}", "{0}. {1}", "Document {0}:\n{1}")

# How texts begin.
TEXTS = (
    *("The police said on Monday that", "A new study has found that", "Scientists have discovered"),
    *("The company announced on Thursday", "In the summer of 1987,", "The government", "The city of"),
    *(
        "Residents of",
        "A man was arrested",
        "The team won",
        "The match",
        "After ten years,",
        "The film tells",
        "Her book",
    ),
    *(
        "The museum",
        "The river",
        "The species",
        "The minister told reporters",
        "Researchers at the university",
        "Police",
    ),
    *(
        "The accident happened",
        "Thousands of people",
        "The court ruled",
        "The album",
        "The school",
        "The hospital said",
    ),
    *("Born in", "He grew up in", "She was the first", "The war began", "The island", "The village", "The castle"),
    *("The bank said", "Prices rose", "Climate change", "The disease", "The vaccine", "The human body", "The planet"),
    *("The first computer", "The internet", "The song was", "The band", "The series", "The actor", "The battle of"),
    *("According to the report,", "An investigation", "The storm", "The fire", "Farmers in", "The economy", "The law"),
    *("Officials confirmed that", "It was a cold morning when", "Last week,", "In 2012,", "During the 19th century,"),
    *("The theory of", "The process of", "Coffee", "Football", "The train", "My grandmother", "We arrived at", "Dear"),
)
_ENDS = (". ", ".\n", "! ", "? ", '." ', '."\n')


@dataclass(frozen=True, slots=True)
class Lead:
    """How the question of a seed comes about: its form, filled with texts; drawn: then the target goes on."""

    form: str
    texts: tuple[tuple[str, int], ...]  # how each begins, and its tokens at most
    drawn: bool

    def filled(self, texts: tuple[str, ...]) -> str:
        """The question, or how it begins."""
        return self.form.format(*texts)


BARE_LEAD = Lead("", (), True)


def lead(seed: int) -> Lead:
    """The lead of a seed."""
    chance = Random(seed)
    kind = chance.random()
    if kind < BARE:
        return BARE_LEAD
    if kind < BARE + BEGUN:
        return Lead(chance.choice(STARTS), (), True)
    several = kind >= BARE + BEGUN + ABOUT_ONE
    texts = tuple(
        (chance.choice(TEXTS), chance.randint(*TEXT_TOKENS))
        for _ in range(chance.randint(2, MOST_TEXTS) if several else 1)
    )
    if not several:
        return Lead(chance.choice(FORMS), texts, False)
    drawn = chance.random() < ASKING
    numbering = chance.choice(NUMBERINGS)
    listed = "\n\n".join(numbering.format(place + 1, f"{{{place}}}") for place in range(len(texts)))
    return Lead(chance.choice(ASKED if drawn else COMPARED).format(listed), texts, drawn)


def whole(start: str, rest: str, reason: FinishReason) -> str | None:
    """A text up to its last whole sentence; None where there is none, or too little."""
    text = start + rest
    if reason is not FinishReason.STOP:
        text = text[: max(text.rfind(end) for end in _ENDS) + 1]
    text = text.strip()
    return text if len(text) >= LEAST_TEXT else None


def digest() -> str:
    """What tells these leads from others, in hex."""
    told = [BARE, BEGUN, ABOUT_ONE, TEXT_TOKENS, TEXT_TEMPERATURE, TEXT_TOP_P, LEAST_TEXT, ASKING]
    words = [STARTS, FORMS, ASKED, COMPARED, NUMBERINGS, TEXTS]
    return hashlib.sha256(json.dumps([told, words]).encode()).hexdigest()
