"""Stands for the cactus-compute package in tests: the calls that the adaptor makes, and an answer as cactus_complete gives
it (keys of its documentation), which says what it was asked."""
import os


def cactus_init(path):
    return path


def cactus_reset(model):
    pass


def cactus_complete(model, messages, options):
    last = messages[-1]
    if "fail" in last["content"]:
        return {"success": False, "error": "out of memory"}
    sizes = [os.path.getsize(path) for path in last.get("images", []) + last.get("audio", [])]
    return {"success": True, "error": None, "cloud_handoff": False, "response": f"{model}: {last['content']} {sizes}",
            "function_calls": [], "segments": [], "confidence": 0.8123, "confidence_threshold": 0.0,
            "time_to_first_token_ms": 12.5, "total_time_ms": 40.0, "prefill_tps": 100.0, "decode_tps": 50.0,
            "ram_usage_mb": 900.0, "prefill_tokens": 31, "decode_tokens": options["max_tokens"], "total_tokens": 40}
