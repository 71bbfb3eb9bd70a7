/* tokenizer_json.c - a tokenizer.json from a vocabulary, merges and added tokens. */
#include "engine/tokenizer.h"

static cJSON *typed(const char *type)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "type", type);
    return o;
}

static cJSON *replace_step(const char *from, const char *to)
{
    cJSON *o = typed("Replace"), *pattern = cJSON_AddObjectToObject(o, "pattern");
    cJSON_AddStringToObject(pattern, "String", from);
    cJSON_AddStringToObject(o, "content", to);
    return o;
}

cJSON *tokenizer_json(cJSON *vocab, cJSON *merges, cJSON *added_tokens)
{
    cJSON *t = cJSON_CreateObject(), *model = typed("BPE"), *decoder = typed("Sequence");
    cJSON_AddBoolToObject(model, "byte_fallback", true);
    cJSON_AddBoolToObject(model, "skip_unknown_merges", true);
    cJSON_AddItemToObject(model, "vocab", vocab);
    cJSON_AddItemToObject(model, "merges", merges);
    cJSON_AddItemToObject(t, "added_tokens", added_tokens);
    cJSON_AddItemToObject(t, "normalizer", replace_step(" ", "\xe2\x96\x81"));
    cJSON *steps = cJSON_AddArrayToObject(decoder, "decoders");
    cJSON_AddItemToArray(steps, replace_step("\xe2\x96\x81", " "));
    cJSON_AddItemToArray(steps, typed("ByteFallback"));
    cJSON_AddItemToArray(steps, typed("Fuse"));
    cJSON_AddItemToObject(t, "decoder", decoder);
    cJSON_AddItemToObject(t, "model", model);
    return t;
}
