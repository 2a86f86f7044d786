/* The block: attention, perhaps cross-attention, feed-forward, each inside a residual; as layers/block.py reads. */

#include "block.h"

#include <immintrin.h>
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
    _Atomic int64_t here, rounds;
} Gate;

/* Where threads wait for each other, a dozen times a layer. OpenMP's own barrier takes longer than a small product. */
static void meet(Gate *gate, Team team) {
    int64_t round = atomic_load_explicit(&gate->rounds, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&gate->here, 1, memory_order_acq_rel) + 1 == team.n) {
        atomic_store_explicit(&gate->here, 0, memory_order_relaxed);
        atomic_store_explicit(&gate->rounds, round + 1, memory_order_release);
        return;
    }
    for (int64_t turns = 0; atomic_load_explicit(&gate->rounds, memory_order_acquire) == round; turns++)
        turns < 2000 ? _mm_pause() : (void)sched_yield(); /* somebody else needs the core */
}

typedef struct { /* what a pass writes on; every thread sees the same but for `scores` and `packed` */
    Gate *gate;
    float *x, *h, *wide, *inner, *scores;
    int8_t *rounded;
    int16_t *packed;
    float *scales;
    int64_t rows, tokens, m, d;
} Sheet;

static Rows rows_of(const Sheet *s, const float *x) { return (Rows){x, s->rounded, s->scales, s->m, s->packed}; }

/* The rows that a sub-layer reads: x, or its norm where that comes first. */
static Rows entering(const Norm *norm, int64_t pre, const Weight *w, const Sheet *s, Team team) {
    int64_t low, high;
    Rows rows = rows_of(s, pre ? s->h : s->x);
    if (pre) {
        share(s->m, 1, team, &low, &high);
        for (int64_t i = low; i < high; i++) normalise(norm, s->x + i * s->d, s->h + i * s->d, s->d);
    }
    prepare(w, rows, team); /* the same rows as above: no barrier between */
    meet(s->gate, team);
    return rows;
}

/* The sum of x and what the sub-layer says, and its norm where that comes last. */
static void leaving(const Norm *norm, int64_t pre, const Weight *w, const float *from, const Sheet *s, Team team) {
    int64_t low, high;
    prepare(w, rows_of(s, from), team);
    meet(s->gate, team);
    product(w, rows_of(s, from), s->x, 1, team);
    meet(s->gate, team);
    if (pre) return;
    share(s->m, 1, team, &low, &high);
    for (int64_t i = low; i < high; i++) normalise(norm, s->x + i * s->d, s->x + i * s->d, s->d);
    meet(s->gate, team);
}

static void attention(const Attention *a, int64_t layer, int cross, const View *view, const Sheet *s, Team team) {
    Rows rows = entering(&a->norm, a->pre, &a->in, s, team);
    product(&a->in, rows, s->wide, 0, team);
    meet(s->gate, team);
    if (!cross && (view->cos || view->held.k)) {
        settle(a, view, layer, s->wide, s->rows, s->tokens, team);
        meet(s->gate, team);
    }
    attend(a, view, layer, cross, s->wide, s->inner, s->scores, s->rows, s->tokens, team);
    meet(s->gate, team);
    leaving(&a->norm, a->pre, &a->out, s->inner, s, team);
}

static void feed_forward(const FeedForward *f, const Sheet *s, Team team) {
    int64_t width = f->down.k, low, high;
    Rows rows = entering(&f->norm, f->pre, &f->up, s, team);
    product(&f->up, rows, s->wide, 0, team);
    meet(s->gate, team);
    share(width, 16, team, &low, &high);
    for (int64_t i = 0; i < s->m; i++) {
        const float *up = s->wide + i * f->up.n + low;
        activate(f->activation, up, f->gated ? up + width : NULL, s->inner + i * width + low, high - low);
    }
    meet(s->gate, team);
    leaving(&f->norm, f->pre, &f->down, s->inner, s, team);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rows x (B, T, D) through all blocks, in place. Returns 0, or 1 where there is no memory for it. */
int run_blocks(const Block *blocks, int64_t n, float *x, int64_t n_rows, int64_t n_tokens, const View *view,
               int64_t threads) {
    int64_t m = n_rows * n_tokens, d = blocks->ffn.up.k, wide = 0, inner = 0;
    int64_t most = larger(view->n_keys, view->memory_len) + 16;
    for (int64_t i = 0; i < n; i++) {
        wide = larger(wide, larger(blocks[i].self.in.n, blocks[i].ffn.up.n));
        inner = larger(inner, larger(blocks[i].self.out.k, blocks[i].ffn.down.k));
        if (blocks[i].has_cross) wide = larger(wide, blocks[i].cross.in.n), inner = larger(inner, blocks[i].cross.out.k);
    }
    int64_t room = panel_room(larger(d, inner), m);
    size_t floats = m * (d + wide + inner + 1) + threads * most;
    float *memory = malloc(floats * sizeof(float) + threads * room * sizeof(int16_t) + m * larger(d, inner));
    if (!memory) return 1;
    Gate gate = {0, 0};
    Sheet all = {.gate = &gate, .x = x, .h = memory, .rows = n_rows, .tokens = n_tokens, .m = m, .d = d};
    all.wide = all.h + m * d;
    all.inner = all.wide + m * wide;
    all.scales = all.inner + m * inner;
    all.scores = all.scales + m;
    all.packed = (int16_t *)(all.scores + threads * most);
    all.rounded = (int8_t *)(all.packed + threads * room);
#pragma omp parallel num_threads(threads)
    {
        Team team = {omp_get_thread_num(), omp_get_num_threads()};
        Sheet s = all;
        s.scores += team.id * most, s.packed += team.id * room;
        for (int64_t i = 0; i < n; i++) {
            attention(&blocks[i].self, i, 0, view, &s, team);
            if (blocks[i].has_cross) attention(&blocks[i].cross, i, 1, view, &s, team);
            feed_forward(&blocks[i].ffn, &s, team);
        }
    }
    free(memory);
    return 0;
}

/* x W^T + b for m rows. */
int run_product(const Weight *w, const float *x, int64_t m, float *out, int64_t threads) {
    int64_t room = w->kind == EIGHT ? panel_room(w->k, m) : 0;
    size_t bytes = m * sizeof(float) + threads * room * sizeof(int16_t) + m * w->k;
    float *memory = w->kind == EIGHT ? malloc(bytes) : NULL;
    if (w->kind == EIGHT && !memory) return 1;
    Gate gate = {0, 0};
    int16_t *packed = memory ? (int16_t *)(memory + m) : NULL;
#pragma omp parallel num_threads(threads)
    {
        Team team = {omp_get_thread_num(), omp_get_num_threads()};
        Rows rows = {x, NULL, memory, m, packed};
        if (packed) rows.rounded = (int8_t *)(packed + threads * room), rows.packed += team.id * room;
        prepare(w, rows, team);
        meet(&gate, team);
        product(w, rows, out, 0, team);
    }
    free(memory);
    return 0;
}

uint32_t made_of(void) { return MADE_OF; } /* a sum over these files: an old library is not taken for a new one */
