"""A client of OpenAI's /completions that notes when each piece of an answer came. Standard library only.

While answers come it only keeps bytes and times, so that it takes next to nothing from the servers beside it; what the
bytes say is found out afterwards.
"""

import asyncio
import bisect
import dataclasses
import json
import time
import urllib.parse


class RequestFailed(Exception):
    pass


@dataclasses.dataclass
class Answer:
    """What one stream was."""

    sent_at: float
    arrivals: list  # when each event with text came
    output_tokens: int  # by the server's usage; 0: it did not say, or the stream was left early
    ended_at: float

    @property
    def ttft(self):
        """Seconds to the first text; to the end where a token was no text by itself."""
        return (self.arrivals[0] if self.arrivals else self.ended_at) - self.sent_at

    def tokens_per_event(self):
        return self.output_tokens / len(self.arrivals) if self.output_tokens and self.arrivals else 1.0


class Stream:
    """A request under way."""

    def __init__(self, url, model, prompt, output_tokens):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.path = parts.hostname, parts.port or 80, parts.path.rstrip("/") + "/completions"
        self.body = json.dumps({
            "model": model, "prompt": prompt, "max_tokens": output_tokens, "temperature": 0, "ignore_eos": True,
            "stream": True, "stream_options": {"include_usage": True},
        }).encode()  # fmt: skip
        self.reads = []  # (when, bytes)
        self.events = 0  # about
        self.sent_at = None
        self.task = None

    def start(self):
        self.task = asyncio.create_task(self._run())
        return self

    async def _run(self):
        reader, writer = await asyncio.open_connection(self.host, self.port)
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        try:
            self.sent_at = time.perf_counter()
            writer.write(head.encode() + self.body)
            while data := await reader.read(65536):
                self.reads.append((time.perf_counter(), data))
                self.events += data.count(b"data:")
        finally:
            writer.close()

    async def leave(self):
        """Ends the request by closing its connection."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def answer(self):
        await self.task
        return self.so_far()

    def so_far(self):
        return parse(self.sent_at, self.reads)


def split_chunks(raw, begin):
    """The chunks of a body in HTTP/1.1's chunked coding from `begin` on: (end in raw, bytes). A cut end is dropped."""
    while (line_end := raw.find(b"\r\n", begin)) >= 0:
        size = int(raw[begin:line_end].split(b";")[0], 16)
        end = line_end + 2 + size
        if size == 0 or end > len(raw):
            return
        yield end, raw[line_end + 2 : end]
        begin = end + 2


def parse(sent_at, reads):
    raw = b"".join(data for _, data in reads)
    ends = []  # of each read, in raw
    for _, data in reads:
        ends.append((ends[-1] if ends else 0) + len(data))
    head_end = raw.find(b"\r\n\r\n")
    head = raw[:head_end].decode(errors="replace")
    if not head.split(" ", 2)[1:2] == ["200"]:
        raise RequestFailed(raw[:1000].decode(errors="replace") or "the server closed the connection without an answer")
    chunked = "transfer-encoding: chunked" in head.lower()
    chunks = split_chunks(raw, head_end + 4) if chunked else [(len(raw), raw[head_end + 4 :])]

    arrivals, output_tokens, pending = [], 0, b""
    for end, chunk in chunks:
        pending += chunk
        *lines, pending = pending.split(b"\n")
        when = reads[min(bisect.bisect_left(ends, end), len(reads) - 1)][0]
        for line in lines:
            if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                continue
            event = json.loads(line[5:])
            if "error" in event:
                raise RequestFailed(line.decode(errors="replace"))
            if any(choice.get("text") for choice in event.get("choices") or []):
                arrivals.append(when)
            if event.get("usage"):
                output_tokens = event["usage"]["completion_tokens"]
    return Answer(sent_at, arrivals, output_tokens, reads[-1][0])


def steady_rate(answers):
    """Tokens per second of streams that ran together, from when the last began to when the first ended."""
    begin = max(answer.arrivals[0] for answer in answers)
    end = min(answer.arrivals[-1] for answer in answers)
    if end <= begin:
        raise RequestFailed("the streams did not run at the same time: does the server take so many at once?")
    tokens = 0.0
    for answer in answers:
        inside = bisect.bisect_right(answer.arrivals, end) - bisect.bisect_right(answer.arrivals, begin)
        tokens += inside * answer.tokens_per_event()
    return tokens / (end - begin)


def longest_gap(answers, begin, end):
    """Seconds that any of the streams was silent for within [begin, end], from the last arrival before `begin` on."""
    longest = 0.0
    for answer in answers:
        times = answer.arrivals
        first = max(bisect.bisect_right(times, begin) - 1, 0)
        last = bisect.bisect_left(times, end)
        inside = times[first : last + 1]
        longest = max([longest, *(b - a for a, b in zip(inside, inside[1:]))])
    return longest
