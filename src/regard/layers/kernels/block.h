/* A stack of blocks in C, for one token or a thousand: what layers/quick.py does, without an operator for each line.

   Every thread of a team runs the same functions and does its share of the rows or columns; a barrier stands wherever
   one thread reads what another wrote. Each number is summed up in one order, whatever else is computed beside it: a
   text becomes the same to the bit alone, in any batch, at once or token by token.

   Letters as in docs/notation.md: B rows of T tokens are M = B * T vectors of width D; H heads of width K, G of keys. */

#include <math.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

enum kind { FLOAT, HALF, EIGHT };
enum activation { RELU, GELU, GELU_TANH, SILU, TANH };
enum norm { NONE, LAYER, RMS };

typedef struct { /* (n, k), one row after another */
    const void *values;
    const float *scales; /* (n), of eight bits */
    const float *bias;   /* (n) or NULL */
    int64_t n, k, kind;
    int64_t turn; /* numbers in a Hadamard block (int8.py) */
} Weight;

typedef struct {
    const float *weight, *bias; /* (d); of RMS the first alone */
    double eps;
    int64_t kind;
} Norm;

typedef struct {
    Norm norm;
    Weight in, out; /* in: queries, keys and values of self-attention; queries of cross-attention */
    int64_t pre;    /* whether the norm stands before the sub-layer or behind the sum */
    int64_t n_heads, n_kv_heads, d_head;
    double scale;
} Attention;

typedef struct {
    Norm norm;
    Weight up, down;
    int64_t pre, activation, gated; /* gated: `up` gives the gate first, then what goes through it */
} FeedForward;

typedef struct {
    Attention self, cross;
    FeedForward ffn;
    int64_t has_cross;
} Block;

typedef struct { /* where keys and values are: strides in numbers, of a row of the batch, a head and a token */
    float *k, *v;
    int64_t row, head, token;
} Keys;

typedef struct {
    Keys held; /* the decoding state's, of layer 0; k is NULL where there is none */
    int64_t layer;
    const int64_t *places; /* (B or 1, T) which token of its text each is, and where it is held; -1 is padding */
    int64_t place_row;
    const float *cos, *sin; /* (B or 1, T, K) rotary positions, or NULL */
    int64_t turn_row;
    const float *bias; /* (B or 1, H, T, S) relative positions, or NULL */
    int64_t bias_row, bias_head, bias_query, bias_key;
    const uint8_t *open; /* (B, S) keys that are no padding, or NULL */
    int64_t open_row, n_keys, causal, window; /* window: -1 is none */
    const Keys *memory; /* of every layer: what cross-attention looks at */
    int64_t n_memories, memory_len; /* B / W of them: W hypotheses of a sentence share one */
    const uint8_t *memory_open;
    int64_t memory_open_row;
} View;

typedef struct { /* of a thread in its team */
    int64_t id, n;
} Team;

typedef struct { /* rows to be multiplied, rounded where the weights are */
    const float *x;
    int8_t *rounded;
    float *scales;
    int64_t m;
    int16_t *packed; /* of a thread: what `panel_room` says */
} Rows;

/* A sum in eight bits as a number: its row's scale, its column's, the bias. In one rounding, said so that no compiler
   makes two of it in one place and one in another. */
INLINE float scaled(const Weight *w, float sum, float scale, int64_t column) {
    return fmaf(sum, scale * w->scales[column], w->bias ? w->bias[column] : 0.0f);
}

/* products.c */
void share(int64_t total, int64_t step, Team team, int64_t *low, int64_t *high);
void prepare(const Weight *w, Rows rows, Team team);
void product(const Weight *w, Rows rows, float *out, int add, Team team);
void look_up(const Weight *table, int64_t row, float *out);

/* panels.c */
int64_t many_of(int64_t m);
int64_t panel_room(int64_t k, int64_t m);
void product_of_many(const Weight *w, Rows rows, float *out, int add, Team team);

/* attention.c */
void settle(const Attention *a, const View *view, int64_t layer, float *qkv, int64_t rows, int64_t tokens, Team team);
void attend(const Attention *a, const View *view, int64_t layer, int cross, const float *qkv, float *out, float *scores,
            int64_t rows, int64_t tokens, Team team);

/* pointwise.c */
void normalise(const Norm *norm, const float *x, float *out, int64_t width);
void activate(int64_t activation, const float *x, const float *gate_for, float *out, int64_t n);
void softmax(float *scores, int64_t n);
float log_sum_exp(const float *scores, int64_t n, float largest);
