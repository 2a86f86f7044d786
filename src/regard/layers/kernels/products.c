/* x W^T + b for weights of 32, 16 and 8 bits. A tile of few rows and few columns stays in the registers; a weight is
   read once for all rows of a tile, and for one row as fast as memory gives it. */

#include "block.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
typedef __m512 vec;
#define LOAD(p) _mm512_loadu_ps(p)
#define LOAD_HALF(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ZERO _mm512_setzero_ps()
#define SUM(v) _mm512_reduce_add_ps(v)
#else
#define LANES 8
typedef __m256 vec;
#define LOAD(p) _mm256_loadu_ps(p)
#define LOAD_HALF(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ZERO _mm256_setzero_ps()
static inline float SUM(vec v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
#endif

#define MOST 4 /* rows or columns of a tile, at most */
#define SOME 64 /* rows that stay in the cache while all columns pass by */

void share(int64_t total, int64_t step, Team team, int64_t *low, int64_t *high) {
    int64_t steps = (total + step - 1) / step;
    *low = steps * team.id / team.n * step;
    *high = steps * (team.id + 1) / team.n * step;
    if (*high > total) *high = total;
}

/* ---- rows in eight bits ---- */

/* Times a Hadamard matrix of n: sums and differences of neighbours, of pairs, of fours, of eights. */
static void turn(const float *x, float *out, int64_t width, int64_t n) {
    float root = 1.0f / sqrtf((float)n);
    for (int64_t start = 0; start < width; start += n) {
        float a[16], b[16];
        memcpy(a, x + start, n * sizeof(float));
        for (int64_t half = 1; half < n; half *= 2) {
            for (int64_t i = 0; i < n; i += 2 * half)
                for (int64_t j = i; j < i + half; j++) b[j] = a[j] + a[j + half], b[j + half] = a[j] - a[j + half];
            memcpy(a, b, n * sizeof(float));
        }
        for (int64_t i = 0; i < n; i++) out[start + i] = a[i] * root;
    }
}

#define SWAP1 _MM_SHUFFLE(2, 3, 0, 1)
#define SWAP2 _MM_SHUFFLE(1, 0, 3, 2)

INLINE __m256 butterflies(__m256 a) {
    const __m256 one = _mm256_setr_ps(0, -0.f, 0, -0.f, 0, -0.f, 0, -0.f);
    const __m256 two = _mm256_setr_ps(0, 0, -0.f, -0.f, 0, 0, -0.f, -0.f);
    const __m256 four = _mm256_setr_ps(0, 0, 0, 0, -0.f, -0.f, -0.f, -0.f);
    a = _mm256_add_ps(_mm256_permute_ps(a, SWAP1), _mm256_xor_ps(a, one));
    a = _mm256_add_ps(_mm256_permute_ps(a, SWAP2), _mm256_xor_ps(a, two));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, a, 1), _mm256_xor_ps(a, four));
}

static void turn_sixteen(const float *x, float *out, int64_t width) {
    const __m256 quarter = _mm256_set1_ps(0.25f);
    for (int64_t i = 0; i < width; i += 16) {
        __m256 a = butterflies(_mm256_loadu_ps(x + i)), b = butterflies(_mm256_loadu_ps(x + i + 8));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_add_ps(a, b), quarter));
        _mm256_storeu_ps(out + i + 8, _mm256_mul_ps(_mm256_sub_ps(a, b), quarter));
    }
}

/* A row with NaN or infinity gets a scale of NaN, so that broken weights show. */
static float round_row(const float *x, int8_t *out, int64_t width, int64_t block) {
    float turned[width], largest = 0.0f, broken = 0.0f;
    block == 16 ? turn_sixteen(x, turned, width) : turn(x, turned, width, block);
#pragma omp simd reduction(max : largest) reduction(+ : broken)
    for (int64_t i = 0; i < width; i++) {
        float size = fabsf(turned[i]);
        largest = size > largest ? size : largest;
        broken += turned[i] * 0.0f;
    }
    float steps = largest > 0.0f ? 127.0f / largest : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) out[i] = (int8_t)(int)rintf(turned[i] * steps);
    return (largest + broken) / 127.0f;
}

void prepare(const Weight *w, Rows rows, Team team) {
    int64_t low, high;
    if (w->kind != EIGHT) return;
    share(rows.m, 1, team, &low, &high);
    for (int64_t i = low; i < high; i++)
        rows.scales[i] = round_row(rows.x + i * w->k, rows.rounded + i * w->k, w->k, w->turn);
}

/* A row of a table as floats; turned twice is turned back. */
void look_up(const Weight *table, int64_t row, float *out) {
    int64_t k = table->k;
    if (table->kind == FLOAT) memcpy(out, (const float *)table->values + row * k, k * sizeof(float));
    if (table->kind == HALF)
        for (int64_t i = 0; i < k; i++) out[i] = _cvtsh_ss(((const uint16_t *)table->values)[row * k + i]);
    if (table->kind == EIGHT) {
        float wide[k];
        for (int64_t i = 0; i < k; i++) wide[i] = (float)((const int8_t *)table->values)[row * k + i] * table->scales[row];
        table->turn == 16 ? turn_sixteen(wide, out, k) : turn(wide, out, k, table->turn);
    }
}

/* A tile reads several columns side by side, which memory does not foresee: the next tile's are asked for by name. */
INLINE void soon(const void *address) { __builtin_prefetch(address, 0, 3); }

/* ---- tiles: the sums of R rows times C columns ---- */

INLINE void tile_eight(const int8_t *w, const int8_t *x, int64_t k, int R, int C, int sums[MOST][MOST]) {
    int64_t j = 0;
#ifdef __AVX512VNNI__
    /* The instruction wants one side without sign: 128 is added to each number of x, and 128 times the weights taken off. */
    const __m512i high = _mm512_set1_epi8((char)0x80);
    __m512i acc[MOST][MOST], offset[MOST];
    for (int c = 0; c < C; c++) offset[c] = _mm512_setzero_si512();
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) acc[r][c] = _mm512_setzero_si512();
    for (; j + 64 <= k; j += 64) {
        __m512i wide[MOST];
        for (int c = 0; c < C; c++) {
            wide[c] = _mm512_loadu_si512(w + c * k + j);
            if (R == 1) soon(w + (C + c) * k + j);
            offset[c] = _mm512_dpbusd_epi32(offset[c], high, wide[c]);
        }
        for (int r = 0; r < R; r++) {
            __m512i row = _mm512_xor_si512(_mm512_loadu_si512(x + r * k + j), high);
            for (int c = 0; c < C; c++) acc[r][c] = _mm512_dpbusd_epi32(acc[r][c], row, wide[c]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) sums[r][c] = _mm512_reduce_add_epi32(_mm512_sub_epi32(acc[r][c], offset[c]));
#else
    /* |x| times w with the sign of x: pairs of such products fit into 16 bits, since neither side is below -127. */
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i acc[MOST][MOST];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) acc[r][c] = _mm256_setzero_si256();
    for (; j + 32 <= k; j += 32) {
        __m256i wide[MOST];
        for (int c = 0; c < C; c++) {
            wide[c] = _mm256_loadu_si256((const __m256i *)(w + c * k + j));
            if (R == 1) soon(w + (C + c) * k + j);
        }
        for (int r = 0; r < R; r++) {
            __m256i row = _mm256_loadu_si256((const __m256i *)(x + r * k + j)), size = _mm256_abs_epi8(row);
            for (int c = 0; c < C; c++) {
                __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(wide[c], row));
                acc[r][c] = _mm256_add_epi32(acc[r][c], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            __m128i s = _mm_add_epi32(_mm256_castsi256_si128(acc[r][c]), _mm256_extracti128_si256(acc[r][c], 1));
            s = _mm_add_epi32(s, _mm_shuffle_epi32(s, SWAP2));
            sums[r][c] = _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, SWAP1)));
        }
#endif
    for (; j < k; j++)
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) sums[r][c] += (int)x[r * k + j] * w[c * k + j];
}

INLINE vec load(const void *w, int64_t at, int half) {
    return half ? LOAD_HALF((const uint16_t *)w + at) : LOAD((const float *)w + at);
}

INLINE float load_one(const void *w, int64_t at, int half) {
    return half ? _cvtsh_ss(((const uint16_t *)w)[at]) : ((const float *)w)[at];
}

INLINE void tile_float(const void *w, const float *x, int64_t k, int half, int R, int C, float sums[MOST][MOST]) {
    vec acc[MOST][MOST];
    int64_t j = 0;
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) acc[r][c] = ZERO;
    for (; j + LANES <= k; j += LANES) {
        vec wide[MOST];
        for (int c = 0; c < C; c++) {
            wide[c] = load(w, c * k + j, half);
            if (R == 1) soon((const char *)w + ((C + c) * k + j) * (half ? 2 : 4));
        }
        for (int r = 0; r < R; r++) {
            vec row = LOAD(x + r * k + j);
            for (int c = 0; c < C; c++) acc[r][c] = FMA(row, wide[c], acc[r][c]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            sums[r][c] = SUM(acc[r][c]);
            for (int64_t i = j; i < k; i++) sums[r][c] = fmaf(x[r * k + i], load_one(w, c * k + i, half), sums[r][c]);
        }
}

/* ---- a product ---- */

INLINE void tile(const Weight *w, Rows rows, int64_t row, int64_t column, int kind, int R, int C, float *out, int add) {
    int whole[MOST][MOST];
    float sums[MOST][MOST];
    const char *values = (const char *)w->values + column * w->k * (kind == EIGHT ? 1 : kind == HALF ? 2 : 4);
    if (kind == EIGHT)
        tile_eight((const int8_t *)values, rows.rounded + row * w->k, w->k, R, C, whole);
    else
        tile_float(values, rows.x + row * w->k, w->k, kind == HALF, R, C, sums);
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            float *place = out + (row + r) * w->n + column + c;
            float value = kind == EIGHT ? scaled(w, (float)whole[r][c], rows.scales[row + r], column + c)
                                        : sums[r][c] + (w->bias ? w->bias[column + c] : 0.0f);
            *place = add ? *place + value : value;
        }
}

INLINE void product_of(const Weight *w, Rows rows, float *out, int add, Team team, int kind, int R, int C) {
    int64_t low, high, column;
    share(w->n, 16, team, &low, &high);
    for (int64_t start = 0; start < rows.m; start += SOME) {
        int64_t end = start + SOME < rows.m ? start + SOME : rows.m, row;
        for (column = low; column + C <= high; column += C) {
            for (row = start; row + R <= end; row += R) tile(w, rows, row, column, kind, R, C, out, add);
            for (; row < end; row++) tile(w, rows, row, column, kind, 1, C, out, add);
        }
        for (; column < high; column++)
            for (row = start; row < end; row++) tile(w, rows, row, column, kind, 1, 1, out, add);
    }
}

#ifdef __AVX512VNNI__
#define C_EIGHT 4
#else
#define C_EIGHT 3 /* half as many registers */
#endif

void product(const Weight *w, Rows rows, float *out, int add, Team team) {
    int one = rows.m == 1; /* which waits for memory: few columns at once come as one stream */
    int64_t many = w->kind == EIGHT ? many_of(rows.m) : 0;
    if (many) {
        product_of_many(w, (Rows){NULL, rows.rounded, rows.scales, many, rows.packed}, out, add, team);
        rows = (Rows){NULL, rows.rounded + many * w->k, rows.scales + many, rows.m - many, NULL};
        out += many * w->n;
    }
    if (w->kind == EIGHT && one) product_of(w, rows, out, add, team, EIGHT, 1, 1);
    if (w->kind == EIGHT && !one) product_of(w, rows, out, add, team, EIGHT, 4, C_EIGHT);
    if (w->kind == HALF && one) product_of(w, rows, out, add, team, HALF, 1, 2);
    if (w->kind == HALF && !one) product_of(w, rows, out, add, team, HALF, 4, 3);
    if (w->kind == FLOAT && one) product_of(w, rows, out, add, team, FLOAT, 1, 2);
    if (w->kind == FLOAT && !one) product_of(w, rows, out, add, team, FLOAT, 4, 3);
}
