/* prefix.h - keys and values of what several prompts begin with: computed once, kept, copied for each prompt (inside
 * eval/ only).
 *
 * Shared beginnings are found by comparing a prompt with those that will follow it, soft tokens included, so it does
 * not matter whether they are few-shot examples, a system prompt or a picture. A prompt's answer is the same bits with
 * and without: how a prompt is cut into steps never changes a bit.
 *
 * On disk a prefix is one file, "LENGTH-KEY.kv", where KEY is the SHA-256 of its tokens and of all that its keys and
 * values depend on besides; a file that is damaged is removed and the prefix computed again.
 */
#ifndef HANDOFF_PREFIX_H
#define HANDOFF_PREFIX_H

#include "engine/engine.h"

struct prefix_settings {
    size_t memory_bytes;        /* of keys and values kept; the least recently used ones make room */
    const char *dir;            /* folder for a resume, NULL: none */
    size_t disk_bytes;          /* likewise */
    double worth_ms;            /* what took less than this to compute is not written to disk */
    const char *identity;       /* of model, kernel and arithmetic */
};

struct prefix_store;
struct prefix_store *prefix_open(struct engine *m, const struct prefix_settings *s);
void prefix_close(struct prefix_store *p);                              /* NULL is fine; leaves the files */
void prefix_remove_files(struct prefix_store *p);

/* Soft tokens as in step_input. */
struct prefix_prompt { const int32_t *ids; int n; const float *soft; };

/* A new sequence that holds the first seq_length() tokens of `mine`, at least one less than all; NULL if nothing is
 * shared. `others` will follow; shared[i] becomes the number of tokens that others[i] has in common with `mine`. Fails
 * if the engine does. */
int prefix_begin(struct prefix_store *p, const struct prefix_prompt *mine, const struct prefix_prompt *others,
                 int n_others, int *shared, struct seq **out, struct err *e);

/* Tokens of all prompts so far, and how many of them need not be computed. */
struct prefix_counts { int64_t prompt_tokens, saved; };
struct prefix_counts prefix_counts(const struct prefix_store *p);

#endif
