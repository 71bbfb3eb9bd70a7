/* Input: a chat template; rendered for a conversation that has a bit of everything. */
#include "engine/engine.h"
#include "tests/fuzz.h"

#include <string.h>

static const char talk[] =
    "[{\"role\":\"system\",\"content\":\" Be brief. \"},"
    "{\"role\":\"user\",\"n\":3,\"x\":0.5,\"content\":[{\"type\":\"text\",\"text\":\"h\xc3\xa9llo 'w' \\\"q\\\"\\n\"},"
    "{\"type\":\"image\"}],\"tags\":[\"b\",\"A\",null,true,[1,2]]},"
    "{\"role\":\"assistant\",\"content\":\"<|channel>t<channel|> hi\",\"args\":{\"z\":1,\"A\":[2.5],\"b\":{\"k\":null}}}]";

static int fuzz_one(const uint8_t *data, size_t n)
{
    struct chat_template *t = NULL;
    struct text out = {0};
    struct err e = {0};
    cJSON *messages = json_parse(talk, strlen(talk), "talk", &e);
    if (chat_template_open(&t, n ? (const char *)data : "", n, "fuzz", &e) == 0)
        chat_render(t, messages, true, true, &out, &e);
    chat_template_close(t);
    text_free(&out);
    cJSON_Delete(messages);
    return 0;
}
