/* Attention of each query over the keys it may see, closed ones never being touched. */

#include "block.h"

#include <math.h>
#include <string.h>

/* Rotary positions: (a, b) becomes (a cos - b sin, b cos + a sin); `sin` of the first half comes with its sign. */
static void rotate(float *x, const float *cos, const float *sin, int64_t width) {
    float *first = x, *second = x + width / 2;
#pragma omp simd
    for (int64_t i = 0; i < width / 2; i++) {
        float a = first[i], b = second[i];
        first[i] = fmaf(b, sin[i], a * cos[i]);
        second[i] = fmaf(a, sin[width / 2 + i], b * cos[width / 2 + i]);
    }
}

static int64_t place_of(const View *view, int64_t row, int64_t token) {
    return view->places ? view->places[row * view->place_row + token] : token;
}

/* Turn the new queries and keys, and put keys and values where the decoding state keeps them. */
void settle(const Attention *a, const View *view, int64_t layer, float *qkv, int64_t rows, int64_t tokens, Team team) {
    int64_t width = a->d_head, turned = a->n_heads + a->n_kv_heads, low, high;
    share(rows * tokens, 1, team, &low, &high);
    for (int64_t i = low; i < high; i++) {
        int64_t row = i / tokens, token = i % tokens, place = place_of(view, row, token);
        float *heads = qkv + i * (turned + a->n_kv_heads) * width;
        for (int64_t h = 0; view->cos && h < turned; h++) {
            int64_t at = row * view->turn_row + token * width;
            rotate(heads + h * width, view->cos + at, view->sin + at, width);
        }
        for (int64_t g = 0; view->held.k && place >= 0 && g < a->n_kv_heads; g++) {
            int64_t at = layer * view->layer + row * view->held.row + g * view->held.head + place * view->held.token;
            memcpy(view->held.k + at, heads + (a->n_heads + g) * width, width * sizeof(float));
            memcpy(view->held.v + at, heads + (turned + g) * width, width * sizeof(float));
        }
    }
}

INLINE float dot(const float *a, const float *b, int64_t n) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

typedef struct { /* what one query sees */
    const float *k, *v, *bias;
    const uint8_t *open;
    int64_t low, high, token, bias_key;
} Sight;

INLINE void look_at(const float *q, Sight s, float scale, float *scores, float *out, int64_t width) {
    for (int64_t j = s.low; j < s.high; j++) {
        float score = -INFINITY;
        if (!s.open || s.open[j]) {
            score = dot(q, s.k + j * s.token, width) * scale;
            if (s.bias) score += s.bias[j * s.bias_key];
        }
        scores[j - s.low] = score;
    }
    softmax(scores, s.high - s.low);
    float sum[width];
    memset(sum, 0, width * sizeof(float));
    for (int64_t j = s.low; j < s.high; j++) {
        const float *v = s.v + j * s.token, weight = scores[j - s.low];
        if (s.open && !s.open[j]) continue;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) sum[i] = fmaf(weight, v[i], sum[i]);
    }
    memcpy(out, sum, width * sizeof(float));
}

static void look(const float *q, Sight s, float scale, float *scores, float *out, int64_t width) {
    switch (width) { /* the usual widths stay in registers */
        case 32: look_at(q, s, scale, scores, out, 32); break;
        case 64: look_at(q, s, scale, scores, out, 64); break;
        default: look_at(q, s, scale, scores, out, width);
    }
}

static Sight sight_of(const Attention *a, const View *view, Keys keys, int64_t row, int64_t head, int64_t token) {
    int64_t place = place_of(view, row, token), window = view->window, at;
    Sight s = {.low = 0, .high = view->n_keys, .token = keys.token, .bias_key = view->bias_key};
    if (view->causal) s.high = place + 1;
    if (window >= 0 && place - window > 0) s.low = place - window;
    if (window >= 0 && place + window + 1 < s.high) s.high = place + window + 1;
    at = row * keys.row + head / (a->n_heads / a->n_kv_heads) * keys.head;
    s.k = keys.k + at, s.v = keys.v + at;
    if (view->bias) s.bias = view->bias + row * view->bias_row + head * view->bias_head + token * view->bias_query;
    if (view->open) s.open = view->open + row * view->open_row;
    return s;
}

static Sight memory_of(const Attention *a, const View *view, Keys keys, int64_t row, int64_t head) {
    Sight s = {.low = 0, .high = view->memory_len, .token = keys.token};
    int64_t at = row * keys.row + head / (a->n_heads / a->n_kv_heads) * keys.head;
    s.k = keys.k + at, s.v = keys.v + at;
    if (view->memory_open) s.open = view->memory_open + row * view->memory_open_row;
    return s;
}

void attend(const Attention *a, const View *view, int64_t layer, int cross, const float *qkv, float *out, float *scores,
            int64_t rows, int64_t tokens, Team team) {
    int64_t width = a->d_head, low, high, stride = (a->n_heads + (cross ? 0 : 2 * a->n_kv_heads)) * width;
    Keys keys = view->held;
    if (cross) {
        keys = view->memory[layer];
    } else if (keys.k) {
        keys.k += layer * view->layer, keys.v += layer * view->layer;
    } else { /* no state: the keys are those of these rows */
        keys = (Keys){(float *)qkv + a->n_heads * width, (float *)qkv + (a->n_heads + a->n_kv_heads) * width,
                      tokens * stride, width, stride};
    }
    share(rows * a->n_heads * tokens, 1, team, &low, &high); /* head by head, so that its keys stay near */
    for (int64_t i = low; i < high; i++) {
        int64_t token = i % tokens, head = i / tokens % a->n_heads, row = i / tokens / a->n_heads;
        Sight sight = cross ? memory_of(a, view, keys, row / (rows / view->n_memories), head)
                            : sight_of(a, view, keys, row, head, token);
        int64_t at = row * tokens + token;
        look(qkv + at * stride + head * width, sight, (float)a->scale, scores, out + (at * a->n_heads + head) * width,
             width);
    }
}
