/* Input: a tokenizer.json, a NUL, a text. The text is encoded and decoded by that tokenizer if it can be read. */
#include "engine/tokenizer.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

static int fuzz_one(const uint8_t *data, size_t n)
{
    const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
    size_t json_len = nul ? (size_t)(nul - data) : n;
    struct tokenizer *t = NULL;
    struct err e = {0};
    cJSON *json = json_parse(n ? (const char *)data : "", json_len, "fuzz", &e);
    if (json && tokenizer_read(&t, json, "fuzz", &e) == 0) {
        struct ids ids = {0};
        struct text back = {0};
        if (nul)
            tokenize(t, (const char *)nul + 1, n - json_len - 1, &ids);
        detokenize(t, ids.id, ids.n, true, &back);
        for (int i = 0; i < ids.n; i++)
            if (!tokenizer_piece(t, ids.id[i]))
                abort();
        if (!utf8_valid(back.data, back.len, NULL))
            abort();
        ids_free(&ids);
        text_free(&back);
    }
    cJSON_Delete(json);
    tokenizer_close(t);
    return 0;
}
