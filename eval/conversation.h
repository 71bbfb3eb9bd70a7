/* conversation.h - a conversation given by a user, as JSON or on the command line, with its media files (inside eval/
 * only). */
#ifndef HANDOFF_CONVERSATION_H
#define HANDOFF_CONVERSATION_H

#include "engine/engine.h"

struct conversation {
    cJSON *messages;
    bool enable_thinking;
    int n_media;
    struct media *media;        /* in the order of their placeholders */
    struct mapped *files;       /* [n_media]; of bytes given in memory only the name (path) */
    void **given;               /* [n_media]; those bytes, NULL for files */
    struct media_tokens *encoded;           /* [n_encoded], the first of `media` */
    int n_encoded;
};

/* F.json: an array of messages, or an object with "messages" and maybe "enable_thinking". A part of content
 * {"type": "image", "image": "x.png"} or {"type": "audio", "audio": "x.wav"} (also under "path", "url" or "file")
 * names a file relative to F.json. */
int conversation_read(struct conversation *c, const char *path, struct err *e);
/* One user turn: pictures, then sounds, then the text. */
int conversation_make(struct conversation *c, const char *prompt, const char *const *images, int n_images,
                      const char *const *audios, int n_audios, struct err *e);
/* One more picture or sound: a file, or bytes (taken over) with a name for messages. */
int conversation_add_file(struct conversation *c, enum media_kind kind, const char *path, struct err *e);
void conversation_add_bytes(struct conversation *c, enum media_kind kind, void *bytes, size_t n, const char *name);
/* Takes the latest of them out again. */
void conversation_drop_last(struct conversation *c);
void conversation_free(struct conversation *c);

/* Uses at most so many seconds of each sound. */
void conversation_limit_audio(struct conversation *c, double max_s);
/* Renders with the checkpoint's template; from any thread. */
int conversation_render(const struct engine *m, const struct conversation *c, struct text *rendered, struct err *e);
/* Encodes the media that are not encoded yet. */
int conversation_encode(struct engine *m, struct conversation *c, struct err *e);
/* Tokenizes and expands the placeholders. *soft: see engine_prompt. */
int conversation_expand(const struct engine *m, const struct conversation *c, const struct text *rendered,
                        struct ids *ids, float **soft, struct err *e);
/* The three in a row. */
int conversation_prompt(struct engine *m, struct conversation *c, struct ids *ids, float **soft, struct err *e);

#endif
