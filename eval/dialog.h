/* dialog.h - a conversation that goes on: each turn reuses the keys and values of what was said before (inside eval/
 * only).
 *
 *     struct dialog d;
 *     dialog_start(&d, engine, probe, NULL);
 *     dialog_say(&d, "What is 3 + 4?");
 *     if (dialog_answer(&d, &settings, show, NULL, &answer, &e)) ...
 */
#ifndef HANDOFF_DIALOG_H
#define HANDOFF_DIALOG_H

#include "eval/answer.h"
#include "eval/conversation.h"
#include "eval/reply.h"

/* A sequence and the tokens it holds. */
struct held { struct seq *seq; struct ids ids; };

struct dialog {
    struct engine *m;
    const struct probe *probe;
    struct batcher *batcher;
    struct conversation c;
    cJSON *waiting;             /* parts of the next message: pictures and sounds given before its text */
    /* What the latest turn left: its prompt without the last token, and prompt and answer. A template may write an
     * answer down in another way than it was given; then the former still is a beginning of the next prompt. */
    struct held prompt, turn;
    int n_reused;               /* tokens of the latest prompt that were not computed again */
};
/* system: text of a system message, or NULL. */
void dialog_start(struct dialog *d, struct engine *m, const struct probe *p, const char *system);
void dialog_end(struct dialog *d);
/* A picture or a sound in front of the next message. It is encoded at once; one that cannot be is not taken. */
int dialog_attach(struct dialog *d, enum media_kind kind, const char *path, struct err *e);
void dialog_say(struct dialog *d, const char *text);
/* Answers what was said. `show` sees the reply behind each token and may return false to end it; *answer is the
 * caller's to free, *content (cleared first) the answer's visible text. On failure what was said is taken back. */
int dialog_answer(struct dialog *d, const struct decode_settings *settings,
                  bool (*show)(void *user, const struct reply *so_far), void *user, struct answer *answer,
                  struct text *content, struct err *e);

#endif
