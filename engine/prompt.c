/* prompt.c - a rendered prompt as ids, with each media placeholder expanded to the soft tokens of its picture or
 * sound. */
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

enum { N_KINDS = 2 };
static const char *const kind_name[N_KINDS] = {"image", "audio"};

/* The media of one prompt and how far they are used up. */
struct expansion {
    const struct media_tokens *media;
    const enum media_kind *kinds;
    int next[N_KINDS];          /* where to look for the next item of a kind */
    size_t hidden_size;
    float *soft;                /* [n_soft, hidden_size] */
    size_t n_soft;
};

static int count_media(const enum media_kind *kinds, int n, enum media_kind kind)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += kinds[i] == kind;
    return count;
}

static int check_counts(const struct placeholder *p, enum media_kind kind, const struct ids *ids, int n_media,
                        struct err *e)
{
    int found = 0;
    for (int i = 0; i < ids->n; i++)
        found += p->token >= 0 && ids->id[i] == p->token;
    if (n_media && (p->token < 0 || p->begin < 0 || p->end < 0))
        return err_input(e, "this checkpoint takes no %s: config.json names no placeholder for it", kind_name[kind]);
    if (found != n_media)
        return err_input(e, "the prompt has %d %s placeholder%s, but %d %s file%s given", found, kind_name[kind],
                         found == 1 ? "" : "s", n_media, kind_name[kind], n_media == 1 ? " was" : "s were");
    return 0;
}

/* Begin marker, soft tokens, end marker for every part of the next item of a kind. */
static void expand(struct expansion *x, const struct placeholder *p, enum media_kind kind, struct ids *out)
{
    while (x->kinds[x->next[kind]] != kind)
        x->next[kind]++;
    const struct media_tokens *m = &x->media[x->next[kind]++];
    for (int part = 0; part < m->n_parts; part++) {
        ids_push(out, p->begin);
        for (int i = 0; i < m->part_tokens[part]; i++)
            ids_push(out, p->token);
        ids_push(out, p->end);
    }
    if (m->n_tokens)
        memcpy(x->soft + x->n_soft * x->hidden_size, m->soft, (size_t)m->n_tokens * x->hidden_size * sizeof *x->soft);
    x->n_soft += (size_t)m->n_tokens;
}

int engine_prompt(const struct engine *m, const char *rendered, size_t len, const struct media_tokens *media,
                  const enum media_kind *kinds, int n_media, struct ids *ids, float **soft, struct err *e)
{
    const struct placeholder *place[N_KINDS] = {&m->config.image, &m->config.audio};
    struct expansion x = {.media = media, .kinds = kinds,
                          .hidden_size = (size_t)m->config.hidden_size};
    struct ids plain = {0};
    size_t n_tokens = 0;
    *soft = NULL;
    tokenize(m->tokenizer, rendered, len, &plain);
    for (int k = 0; k < N_KINDS; k++)
        if (check_counts(place[k], (enum media_kind)k, &plain, count_media(kinds, n_media, (enum media_kind)k), e)) {
            ids_free(&plain);
            return -1;
        }
    for (int i = 0; i < n_media; i++)
        n_tokens += (size_t)media[i].n_tokens;
    if (n_tokens)
        x.soft = NEW(float, n_tokens * x.hidden_size);
    for (int i = 0; i < plain.n; i++) {
        if (n_media && plain.id[i] == place[MEDIA_IMAGE]->token)
            expand(&x, place[MEDIA_IMAGE], MEDIA_IMAGE, ids);
        else if (n_media && plain.id[i] == place[MEDIA_AUDIO]->token)
            expand(&x, place[MEDIA_AUDIO], MEDIA_AUDIO, ids);
        else
            ids_push(ids, plain.id[i]);
    }
    ids_free(&plain);
    *soft = x.soft;
    return 0;
}
