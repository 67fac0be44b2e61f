"""A hundred prompts, and many requests at once."""

import concurrent.futures
from typing import Literal

import pydantic

CITIES = ["Oslo", "Lima", "Rome", "Cairo", "Delhi", "Quito", "Tokyo", "Paris", "Accra", "Seoul"]
QUESTIONS = [
    "Describe a person from {}.",
    "Who lives in {}?",
    "Make up a character for a play set in {}.",
    "Somebody is walking in {}. Who?",
    "A child in {} draws a portrait of",
    "What is the weather in {}?",
    "Is it cold in {} now?",
    "How late is it in {}?",
    "I travel to {} tomorrow.",
    "Write a long story about {}, with three chapters.",
]
PROMPTS = [question.format(city) for question in QUESTIONS for city in CITIES]


def ask(client, prompt, **options):
    return client.chat.completions.create(
        model="smollm2", messages=[{"role": "user", "content": prompt}], temperature=1, **options
    )


def at_once(function, items):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(function, items))


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=120)
    mood: Literal["calm", "glad", "sad"]
