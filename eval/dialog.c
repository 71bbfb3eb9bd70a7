#include "eval/dialog.h"

#include <stdlib.h>
#include <string.h>

static void held_drop(struct held *h)
{
    seq_free(h->seq);
    ids_free(&h->ids);
    *h = (struct held){0};
}

static cJSON *add_message(struct dialog *d, const char *role)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "role", role);
    cJSON_AddItemToArray(d->c.messages, message);
    return message;
}

void dialog_start(struct dialog *d, struct engine *m, const struct probe *p, const char *system)
{
    *d = (struct dialog){.m = m, .probe = p, .batcher = batcher_new(m, p, 1), .waiting = cJSON_CreateArray()};
    d->c.messages = cJSON_CreateArray();
    if (system)
        cJSON_AddStringToObject(add_message(d, "system"), "content", system);
}

void dialog_end(struct dialog *d)
{
    held_drop(&d->prompt);
    held_drop(&d->turn);
    batcher_free(d->batcher);
    conversation_free(&d->c);
    cJSON_Delete(d->waiting);
    *d = (struct dialog){0};
}

static void add_part(cJSON *parts, const char *type, const char *text)
{
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", type);
    if (text)
        cJSON_AddStringToObject(part, "text", text);
    cJSON_AddItemToArray(parts, part);
}

int dialog_attach(struct dialog *d, enum media_kind kind, const char *path, struct err *e)
{
    if (conversation_add_file(&d->c, kind, path, e))
        return -1;
    if (conversation_encode(d->m, &d->c, e)) {
        conversation_drop_last(&d->c);
        return -1;
    }
    add_part(d->waiting, kind == MEDIA_IMAGE ? "image" : "audio", NULL);
    return 0;
}

void dialog_say(struct dialog *d, const char *text)
{
    add_part(d->waiting, "text", text);
    cJSON_AddItemToObject(add_message(d, "user"), "content", d->waiting);
    d->waiting = cJSON_CreateArray();
}

/* The user's last message did not work out: as if it had not been said. */
static void take_back(struct dialog *d)
{
    const int last = cJSON_GetArraySize(d->c.messages) - 1;
    const cJSON *part;
    cJSON_ArrayForEach(part, json_get(cJSON_GetArrayItem(d->c.messages, last), "content"))
        if (!json_string(part, "text"))
            conversation_drop_last(&d->c);
    cJSON_DeleteItemFromArray(d->c.messages, last);
}

static bool begins_with(const struct ids *ids, const struct held *h)
{
    return h->seq && h->ids.n < ids->n && memcmp(h->ids.id, ids->id, (size_t)h->ids.n * sizeof *ids->id) == 0;
}

static void copy_ids(struct ids *to, const struct ids *from, int n)
{
    to->n = 0;
    for (int i = 0; i < n; i++)
        ids_push(to, from->id[i]);
}

/* A sequence that holds all of the prompt but its last token. */
static int prefill(struct dialog *d, const struct ids *prompt, const float *soft, struct seq **out, struct err *e)
{
    struct held *from = begins_with(prompt, &d->turn) ? &d->turn : begins_with(prompt, &d->prompt) ? &d->prompt : NULL;
    struct seq *s = from ? from->seq : seq_new(d->m);
    if (from)
        from->seq = NULL;
    d->n_reused = seq_length(s);
    const size_t width = (size_t)engine_info(d->m)->hidden_size;
    for (int i = 0; i < d->n_reused && soft; i++)
        soft += engine_takes_soft(d->m, prompt->id[i]) ? width : 0;
    struct step_input in = {.seq = s, .ids = prompt->id + d->n_reused, .n = prompt->n - 1 - d->n_reused, .soft = soft};
    held_drop(&d->turn);
    held_drop(&d->prompt);
    if (in.n > 0 && engine_step(d->m, &in, 1, e)) {
        seq_free(s);
        return -1;
    }
    d->prompt.seq = seq_fork(s);
    copy_ids(&d->prompt.ids, prompt, prompt->n - 1);
    *out = s;
    return 0;
}

/* ---- one turn -------------------------------------------------------------------------------------------------- */

struct turn {
    struct reply reply;
    bool (*show)(void *user, const struct reply *so_far);
    void *user;
};

static bool on_token(void *user, const struct answer *a, const double *logits)
{
    struct turn *t = user;
    (void)logits;
    reply_push(&t->reply, a->tokens.id[a->tokens.n - 1]);
    return t->show(t->user, &t->reply);
}

static int run_turn(struct dialog *d, struct turn *t, struct answer_request *r, struct answer *answer, struct err *e)
{
    int failed = 0;
    batcher_add(d->batcher, r);
    while (!failed && !batcher_take(d->batcher, answer))
        failed = batcher_step(d->batcher, e);
    if (failed) {                       /* the sequence is still in it */
        batcher_free(d->batcher);
        d->batcher = batcher_new(d->m, d->probe, 1);
    } else if (answer->err.code) {
        *e = answer->err;
        answer_free(answer);
        failed = -1;
    }
    reply_end(&t->reply);
    return failed;
}

static void keep_turn(struct dialog *d, const struct ids *prompt, struct answer *answer)
{
    d->turn.seq = answer->seq;
    answer->seq = NULL;
    copy_ids(&d->turn.ids, prompt, prompt->n);
    for (int i = 0; i + 1 < answer->tokens.n; i++)
        ids_push(&d->turn.ids, answer->tokens.id[i]);
}

int dialog_answer(struct dialog *d, const struct decode_settings *settings,
                  bool (*show)(void *user, const struct reply *so_far), void *user, struct answer *answer,
                  struct text *content, struct err *e)
{
    struct turn t = {.show = show, .user = user};
    struct answer_request r = {.settings = *settings, .keep_seq = true, .on_token = on_token, .user = &t};
    struct ids prompt = {0};
    int failed = conversation_prompt(d->m, &d->c, &r.prompt, &r.soft, e);
    const int most = engine_info(d->m)->max_positions - 1;
    if (!failed && r.prompt.n > most)
        failed = err_input(e, "the conversation has %d tokens, the model takes %d", r.prompt.n, most);
    copy_ids(&prompt, &r.prompt, failed ? 0 : r.prompt.n);
    if (!failed)
        failed = prefill(d, &prompt, r.soft, &r.seq, e);
    if (!failed) {
        reply_start(&t.reply, engine_tokenizer(d->m), NULL, 0);
        failed = run_turn(d, &t, &r, answer, e);
    }
    text_clear(content);
    if (failed) {
        take_back(d);
    } else {
        text_put(content, t.reply.content.data ? t.reply.content.data : "", t.reply.content.len);
        cJSON_AddStringToObject(add_message(d, "assistant"), "content", content->data);
        keep_turn(d, &prompt, answer);
    }
    reply_free(&t.reply);
    ids_free(&r.prompt);
    ids_free(&prompt);
    free(r.soft);
    return failed;
}
