/* Any bytes as the body of a request to `serve`, and as a server's reply to `run --endpoint`, in pieces of two sizes. */
#include "eval/chat_request.h"
#include "eval/remote.h"
#include "tests/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* What comes out does not depend on how the bytes are cut. */
static int reply(const uint8_t *data, size_t n, size_t piece, struct remote_answer *a)
{
    struct remote_reply r;
    struct err e = {0};
    int failed = 0;
    remote_start(&r);
    for (size_t at = 0; at < n && !failed; at += piece)
        failed = remote_take(&r, data + at, n - at < piece ? n - at : piece, &e);
    if (!failed)
        failed = remote_finish(&r, a, &e);
    remote_drop(&r);
    if (failed && (!e.code || !e.msg[0]))
        abort();
    return failed;
}

static int fuzz_one(const uint8_t *data, size_t n)
{
    const struct chat_limits limits = {.max_tokens = 100, .max_media = 4};
    struct chat_request q;
    struct fault f = {0};
    if (chat_request_read(&q, (const char *)data, n, &limits, &f) == 0) {
        if (q.settings.max_tokens < 1 || q.settings.max_tokens > 100 || q.c.n_media > 4)
            abort();
        chat_request_free(&q);
    } else if (f.status < 400 || !f.err.msg[0]) {
        abort();
    }
    struct remote_answer a = {0}, b = {0};
    const int one = reply(data, n, 1, &a), all = reply(data, n, n + 1, &b);
    if (one != all || (!one && (a.output.len != b.output.len || strcmp(a.output.data, b.output.data) != 0 ||
                                a.confidence_from != b.confidence_from)))
        abort();
    remote_answer_free(&a);
    remote_answer_free(&b);
    struct text body = {0}, said = {0};
    text_put(&body, data, n);
    remote_error_text(&body, &said);
    if (!utf8_valid(said.data ? said.data : "", said.len, NULL))
        abort();
    text_free(&body);
    text_free(&said);
    return 0;
}
