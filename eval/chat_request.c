#include "eval/chat_request.h"
#include "eval/base64.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 4096, MAX_STOP_BYTES = 256, MAX_VALUES = 1 << 18 };

int fault_set(struct fault *f, int status, const char *code, const char *param, const char *fmt, ...)
{
    struct text message = {0};
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(&message, fmt, ap);
    va_end(ap);
    *f = (struct fault){.status = status, .code = code};
    for (size_t i = 0; param && param[i] && i + 1 < sizeof f->param; i++)
        f->param[i] = param[i];
    err_input(&f->err, "%s", message.data ? message.data : "");
    text_free(&message);
    return -1;
}

/* A tree takes far more memory than its text; no honest request has so many values. */
static bool too_many_values(const char *s, size_t len)
{
    size_t n = 0;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        if (quoted && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            quoted = !quoted;
        else if (!quoted)
            n += s[i] == ',' || s[i] == '[' || s[i] == '{';
    }
    return n > MAX_VALUES;
}

/* ---- settings -------------------------------------------------------------------------------------------------- */

/* A number in [lo, hi]; absent and null leave *out as it is. */
static int read_number(const cJSON *body, const char *key, double lo, double hi, bool whole, double *out,
                       struct fault *f)
{
    const cJSON *v = json_get(body, key);
    if (!v || cJSON_IsNull(v))
        return 0;
    if (!cJSON_IsNumber(v) || v->valuedouble < lo || v->valuedouble > hi ||
        (whole && v->valuedouble != floor(v->valuedouble)))
        return fault_set(f, 400, "invalid_value", key, "%s: a %snumber from %.15g to %.15g was expected", key,
                         whole ? "whole " : "", lo, hi);
    *out = v->valuedouble;
    return 0;
}

static int read_flag(const cJSON *object, const char *key, const char *shown, bool *out, struct fault *f)
{
    const cJSON *v = json_get(object, key);
    if (v && !cJSON_IsNull(v) && !cJSON_IsBool(v))
        return fault_set(f, 400, "invalid_type", shown, "%s: true or false was expected", shown);
    *out = cJSON_IsTrue(v);
    return 0;
}

static int read_object(const cJSON *body, const char *key, const cJSON **out, struct fault *f)
{
    *out = json_get(body, key);
    if (*out && !cJSON_IsNull(*out) && !cJSON_IsObject(*out))
        return fault_set(f, 400, "invalid_type", key, "%s: an object was expected", key);
    return 0;
}

static int add_stop(struct chat_request *r, const cJSON *v, struct fault *f)
{
    if (!cJSON_IsString(v) || !v->valuestring[0] || strlen(v->valuestring) > MAX_STOP_BYTES ||
        r->n_stops == CHAT_MAX_STOPS)
        return fault_set(f, 400, "invalid_value", "stop", "stop: up to %d strings of 1 to %d bytes were expected",
                         CHAT_MAX_STOPS, MAX_STOP_BYTES);
    r->stops[r->n_stops++] = mem_strdup(v->valuestring);
    return 0;
}

static int read_stops(struct chat_request *r, const cJSON *body, struct fault *f)
{
    const cJSON *stop = json_get(body, "stop"), *one;
    if (!stop || cJSON_IsNull(stop))
        return 0;
    if (!cJSON_IsArray(stop))
        return add_stop(r, stop, f);
    cJSON_ArrayForEach(one, stop)
        if (add_stop(r, one, f))
            return -1;
    return 0;
}

/* What other servers do and this one does not, with the values that ask for nothing. */
static int refuse_unsupported(const cJSON *body, struct fault *f)
{
    static const struct { const char *key; double neutral; } numbers[] = {
        {"n", 1}, {"best_of", 1}, {"presence_penalty", 0}, {"frequency_penalty", 0}, {"repeat_penalty", 1},
        {"repetition_penalty", 1}, {"top_k", 0}, {"min_p", 0}, {"typical_p", 1}, {"min_tokens", 0}, {"mirostat", 0}};
    static const char *const others[] = {"tools", "functions", "logit_bias", "grammar", "json_schema", "modalities",
                                         "audio", "prediction", "response_format"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const cJSON *v = json_get(body, numbers[i].key);
        if (v && !cJSON_IsNull(v) && !(cJSON_IsNumber(v) && v->valuedouble == numbers[i].neutral))
            return fault_set(f, 400, "unsupported_parameter", numbers[i].key, "%s: only %g is done here",
                             numbers[i].key, numbers[i].neutral);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const cJSON *v = json_get(body, others[i]);
        const char *type = json_string(v, "type");
        bool plain = !v || cJSON_IsNull(v) || ((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child) ||
                     (cJSON_IsArray(v) && !v->child->next && cJSON_IsString(v->child) &&
                      strcmp(v->child->valuestring, "text") == 0) ||
                     (type && strcmp(type, "text") == 0);
        if (!plain)
            return fault_set(f, 400, "unsupported_parameter", others[i], "%s is not done here", others[i]);
    }
    return 0;
}

static int read_settings(struct chat_request *r, const cJSON *body, const struct chat_limits *limits, struct fault *f)
{
    double tokens = limits->max_tokens, seed = 0, top = 0;
    const cJSON *stream_options, *kwargs, *model = json_get(body, "model");
    struct decode_settings *d = &r->settings;
    if (model && !cJSON_IsString(model))
        return fault_set(f, 400, "invalid_type", "model", "model: a string was expected");
    if (refuse_unsupported(body, f) ||
        read_number(body, "max_tokens", 1, limits->max_tokens, true, &tokens, f) ||
        read_number(body, "max_completion_tokens", 1, limits->max_tokens, true, &tokens, f) ||
        read_number(body, "temperature", 0, 100, false, &d->temperature, f) ||
        read_number(body, "top_p", 0, 1, false, &d->top_p, f) ||
        read_number(body, "seed", -0x1p53, 0x1p53, true, &seed, f) ||
        read_number(body, "top_logprobs", 0, CHAT_MAX_TOP, true, &top, f) ||
        read_flag(body, "stream", "stream", &r->stream, f) ||
        read_flag(body, "logprobs", "logprobs", &r->logprobs, f) ||
        read_object(body, "stream_options", &stream_options, f) ||
        read_flag(stream_options, "include_usage", "stream_options.include_usage", &r->include_usage, f) ||
        read_object(body, "chat_template_kwargs", &kwargs, f) ||
        read_flag(kwargs, "enable_thinking", "chat_template_kwargs.enable_thinking", &r->c.enable_thinking, f) ||
        read_stops(r, body, f))
        return -1;
    if (top > 0 && !r->logprobs)
        return fault_set(f, 400, "invalid_value", "top_logprobs", "top_logprobs: goes with \"logprobs\": true");
    d->max_tokens = (int)tokens;
    d->seed = (uint64_t)(int64_t)seed;
    r->top_logprobs = (int)top;
    return 0;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

/* "image" and "audio" parts are what chat templates know; the bytes go to the conversation. */
static int add_media(struct chat_request *r, enum media_kind kind, const char *base64, const char *place,
                     const struct chat_limits *limits, cJSON *content, struct fault *f)
{
    if (r->c.n_media == limits->max_media)
        return fault_set(f, 400, "too_many_media", place, "%s: at most %d pictures and sounds are taken", place,
                         limits->max_media);
    size_t n;
    void *bytes = base64_decode(base64, strlen(base64), &n);
    if (!bytes)
        return fault_set(f, 400, "invalid_base64", place, "%s: base64 was expected", place);
    conversation_add_bytes(&r->c, kind, bytes, n, place);
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", kind == MEDIA_IMAGE ? "image" : "audio");
    cJSON_AddItemToArray(content, part);
    return 0;
}

static int read_image(struct chat_request *r, const cJSON *part, const char *place, const struct chat_limits *limits,
                      cJSON *content, struct fault *f)
{
    const cJSON *image = json_get(part, "image_url");
    const char *url = cJSON_IsString(image) ? image->valuestring : json_string(image, "url");
    const char *comma = url ? strchr(url, ',') : NULL;
    if (!comma || strncmp(url, "data:", 5) != 0 || comma - url < 12 || memcmp(comma - 7, ";base64", 7) != 0)
        return fault_set(f, 400, "invalid_image_url", place, "%s: \"image_url\": {\"url\": "
                         "\"data:image/...;base64,...\"} was expected (nothing is fetched)", place);
    return add_media(r, MEDIA_IMAGE, comma + 1, place, limits, content, f);
}

static int read_part(struct chat_request *r, const cJSON *part, const char *place, const struct chat_limits *limits,
                     cJSON *content, struct fault *f)
{
    const char *type = json_string(part, "type"), *text = json_string(part, "text");
    if (type && strcmp(type, "text") == 0 && text) {
        cJSON *copy = cJSON_CreateObject();
        cJSON_AddStringToObject(copy, "type", "text");
        cJSON_AddStringToObject(copy, "text", text);
        cJSON_AddItemToArray(content, copy);
        return 0;
    }
    if (type && strcmp(type, "image_url") == 0)
        return read_image(r, part, place, limits, content, f);
    const char *sound = json_string(json_get(part, "input_audio"), "data");
    if (type && strcmp(type, "input_audio") == 0 && sound)
        return add_media(r, MEDIA_AUDIO, sound, place, limits, content, f);
    return fault_set(f, 400, "invalid_value", place, "%s: {\"type\": \"text\", \"text\": ...}, \"image_url\" or "
                     "\"input_audio\" (with \"data\") was expected", place);
}

/* Parts of a system message are one text: chat templates take no other. */
static cJSON *joined_text(const cJSON *content)
{
    struct text all = {0};
    const cJSON *part;
    cJSON_ArrayForEach(part, content)
        text_puts(&all, json_string(part, "text") ? json_string(part, "text") : "");
    cJSON *string = cJSON_CreateString(all.data ? all.data : "");
    text_free(&all);
    return string;
}

static int read_message(struct chat_request *r, const cJSON *message, int index, const struct chat_limits *limits,
                        struct fault *f)
{
    static const char *const roles[][2] = {{"system", "system"}, {"developer", "system"}, {"user", "user"},
                                           {"assistant", "assistant"}};
    const char *given = json_string(message, "role"), *role = NULL;
    const cJSON *content = json_get(message, "content"), *part;
    char place[64];
    snprintf(place, sizeof place, "messages[%d]", index);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (given && strcmp(given, roles[i][0]) == 0)
            role = roles[i][1];
    if (!role)
        return fault_set(f, 400, "invalid_role", place, "%s: \"role\": system, developer, user or assistant was "
                         "expected", place);
    cJSON *copy = cJSON_CreateObject(), *parts = NULL;
    cJSON_AddItemToArray(r->c.messages, copy);
    cJSON_AddStringToObject(copy, "role", role);
    if (cJSON_IsString(content)) {
        cJSON_AddStringToObject(copy, "content", content->valuestring);
        return 0;
    }
    if (!cJSON_IsArray(content) || !content->child)
        return fault_set(f, 400, "invalid_type", place, "%s: \"content\": a string or a list of parts was expected",
                         place);
    parts = cJSON_AddArrayToObject(copy, "content");
    int n = 0, before = r->c.n_media;
    cJSON_ArrayForEach(part, content) {
        snprintf(place, sizeof place, "messages[%d].content[%d]", index, n++);
        if (read_part(r, part, place, limits, parts, f))
            return -1;
    }
    if (strcmp(role, "user") != 0 && r->c.n_media > before)
        return fault_set(f, 400, "invalid_value", place, "%s: only the user may give pictures and sounds", place);
    if (strcmp(role, "system") == 0)
        cJSON_ReplaceItemInObject(copy, "content", joined_text(parts));
    return 0;
}

static int read_messages(struct chat_request *r, const cJSON *body, const struct chat_limits *limits, struct fault *f)
{
    const cJSON *messages = json_get(body, "messages"), *message;
    if (!cJSON_IsArray(messages) || !messages->child || cJSON_GetArraySize(messages) > MAX_MESSAGES)
        return fault_set(f, 400, "invalid_type", "messages", "messages: a list of 1 to %d messages was expected",
                         MAX_MESSAGES);
    r->c.messages = cJSON_CreateArray();
    int n = 0;
    cJSON_ArrayForEach(message, messages)
        if (read_message(r, message, n++, limits, f))
            return -1;
    return 0;
}

int chat_request_read(struct chat_request *r, const char *body, size_t len, const struct chat_limits *limits,
                      struct fault *f)
{
    *r = (struct chat_request){0};
    if (too_many_values(body, len))
        return fault_set(f, 400, "invalid_json", NULL, "the body has more than %d values", MAX_VALUES);
    struct err e = {0};
    cJSON *json = json_parse(body, len, "body", &e);
    int failed = 0;
    if (!json)
        failed = fault_set(f, 400, "invalid_json", NULL, "%s", e.msg);
    else if (!cJSON_IsObject(json))
        failed = fault_set(f, 400, "invalid_json", NULL, "the body: a JSON object was expected");
    if (!failed)
        failed = read_settings(r, json, limits, f) || read_messages(r, json, limits, f);
    cJSON_Delete(json);
    if (failed)
        chat_request_free(r);
    return failed ? -1 : 0;
}

void chat_request_free(struct chat_request *r)
{
    conversation_free(&r->c);
    for (int i = 0; i < r->n_stops; i++)
        free(r->stops[i]);
    *r = (struct chat_request){0};
}
