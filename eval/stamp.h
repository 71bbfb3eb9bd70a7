/* stamp.h - run.json: what a run was made of (inside eval/ only). */
#ifndef HANDOFF_STAMP_H
#define HANDOFF_STAMP_H

#include "datasets/datasets.h"
#include "engine/engine.h"

struct stamp_settings {
    int shard, n_shards;        /* 1-based */
    bool has_probe;
    int probe_layer;
    char probe_sha[65];         /* of a probe from another file, "" if it is the checkpoint's own */
    int image_tokens;           /* 0: as the checkpoint says */
    double max_audio_s;         /* 0: all of a sound */
    const char *mmproj, *probe; /* files named on the command line, NULL: none */
    bool trace;
    const char *trace_hidden;   /* layers whose outputs are recorded, NULL: none */
};
/* The stamp with its "identity": whatever decides what a record says. The caller deletes it. */
cJSON *stamp_new(const struct engine *m, struct dataset *const *datasets, int n_tasks,
                 const struct stamp_settings *settings);
/* The same for the answers of a server, of which little is known; the stamp says what is not. */
struct stamp_remote {
    const char *url, *command;  /* one of them is NULL */
    const char *model;
    bool stream;
    int top_logprobs;
    const cJSON *extra;         /* what else was in the requests, NULL: nothing */
    int shard, n_shards;
};
cJSON *stamp_new_remote(struct dataset *const *datasets, int n_tasks, const struct stamp_remote *r);
/* DIR/run.json, which must hold an object; NULL on error. */
cJSON *stamp_read(const char *dir, struct err *e);
/* The first member in which two identities differ: "decode.sampling is 1 in the one and 2 in the other". */
void stamp_difference(const cJSON *one, const cJSON *other, struct text *out);
/* Adds what is known at the end: notes and times and, if the run came to its end, how many samples of each set were read
 * (all, or as many as --limit says) and the fingerprint of those. */
void stamp_close(cJSON *stamp, struct dataset *const *datasets, int n_tasks, bool to_its_end);

#endif
