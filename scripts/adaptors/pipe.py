"""The pipe protocol for adaptors (see README.md): serve(answer) calls answer(messages, max_tokens) for each question.

The function returns a dict: "text", and where known "confidence", "finish_reason", "prompt_tokens", "tokens". What it
raises becomes the error of that one question.
"""
import json
import os
import sys


def serve(answer):
    # Libraries that print must not get between the lines of the protocol.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        request = question["request"]
        try:
            said = answer(request["messages"], request["max_tokens"])
            response = {"choices": [{"message": {"role": "assistant", "content": said["text"]},
                                     "finish_reason": said.get("finish_reason", "stop")}]}
            if said.get("confidence") is not None:
                response["confidence"] = said["confidence"]
            if said.get("tokens") is not None:
                response["usage"] = {"prompt_tokens": said.get("prompt_tokens"), "completion_tokens": said["tokens"]}
            reply = {"id": question["id"], "response": response}
        except Exception as error:  # one question fails, the others go on
            reply = {"id": question["id"], "error": f"{type(error).__name__}: {error}"}
        lines.write(json.dumps(reply) + "\n")
        lines.flush()


def text_of(content):
    """Text of a message's content; parts that are no text are refused."""
    if isinstance(content, str):
        return content
    for part in content:
        if part["type"] != "text":
            raise ValueError(f"this adaptor takes text only, not {part['type']}")
    return "".join(part["text"] for part in content)
